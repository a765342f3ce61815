"""Prompts as Jinja templates in a sandbox: they compute text, for a moment, and reach nothing else."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from roboco.errors import UsageError

VARIABLES = ("task", "team", "agent", "context")
"""What a template may name."""
MOST_LINES = 100_000
"""How many lines of its code a template may run: about a tenth of a second."""
LONGEST = 1024 * 1024
"""Characters of a rendered prompt at most."""
_LARGEST = 10_000
"""The largest factor, and the largest exponent."""
_CODE = "<template>"
"""The file that Jinja says a template's code stands in."""


class _Sandbox(ImmutableSandboxedEnvironment):
    """Refuses what makes much out of little, such as 'x' * 10**9."""

    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """The result, if it stays small."""
        for operand in (left, right):
            if isinstance(operand, int) and abs(operand) > _LARGEST:
                raise ValueError(f"a template may calculate with numbers up to {_LARGEST} alone")
            if not isinstance(operand, int | float) and len(operand) > _LARGEST:
                raise ValueError(f"a template may repeat up to {_LARGEST} characters or items alone")
        return super().call_binop(context, operator, left, right)


# Without the optimizer nothing is computed before a template is rendered.
_environment = _Sandbox(undefined=StrictUndefined, autoescape=False, optimized=False)
del _environment.globals["lipsum"]  # which makes text without a limit


class JinjaPrompts:
    """Renders prompts. A template that names what is not there is refused, never rendered as nothing."""

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """The rendered prompt; UsageError if it names what is not there, runs for long or becomes too long."""
        try:
            compiled = _compiled(template)
            with _lines_counted():
                return "".join(_limited(compiled.generate(variables)))
        except Exception as error:  # a template computes, so it may fail in any way that Python has
            raise UsageError(f"the template fails: {type(error).__name__}: {error}") from error


def check_template(template: str) -> list[str]:
    """What is wrong with the template as far as it can be seen without a task."""
    try:
        tree = _environment.parse(template)
        unknown = sorted(meta.find_undeclared_variables(tree) - set(VARIABLES))
    except TemplateError as error:
        return [f"is not a Jinja template: {error}"]
    except RecursionError:
        return ["is not a Jinja template: it is nested too deep"]
    return [f"unknown variable {name!r}, possible are {', '.join(VARIABLES)}" for name in unknown]


def _limited(pieces: Iterator[str]) -> Iterator[str]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > LONGEST:
            raise ValueError(f"it becomes longer than {LONGEST} characters")
        yield piece


@contextmanager
def _lines_counted() -> Iterator[None]:
    """Until the block ends, this thread may run so many lines of templates: nothing else ends a loop in a thread."""
    left = MOST_LINES

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        left -= event == "line"
        if left < 0:
            raise ValueError(f"it runs more than {MOST_LINES} lines")
        return count

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return count if frame.f_code.co_filename == _CODE else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


@lru_cache(maxsize=256)
def _compiled(template: str) -> Template:
    return _environment.from_string(template)

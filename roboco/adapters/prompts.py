"""Prompts as Jinja templates in a sandbox: they compute text and reach nothing else."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from jinja2 import StrictUndefined, Template, TemplateError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from roboco.errors import UsageError

VARIABLES = ("task", "team", "agent", "context")
"""What a template may name."""

_environment = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False)


class JinjaPrompts:
    """Renders prompts. A template that names what is not there is refused, never rendered as nothing."""

    def render(self, template: str, variables: Mapping[str, Any]) -> str:
        """The rendered prompt; UsageError if it names what is not there."""
        try:
            return _compiled(template).render(variables)
        except Exception as error:  # a template computes, so it may fail in any way that Python has
            raise UsageError(f"the template fails: {type(error).__name__}: {error}") from error


def check_template(template: str) -> list[str]:
    """What is wrong with the template as far as it can be seen without a task."""
    try:
        tree = _environment.parse(template)
    except TemplateError as error:
        return [f"is not a Jinja template: {error}"]
    unknown = sorted(meta.find_undeclared_variables(tree) - set(VARIABLES))
    return [f"unknown variable {name!r}, possible are {', '.join(VARIABLES)}" for name in unknown]


@lru_cache(maxsize=256)
def _compiled(template: str) -> Template:
    return _environment.from_string(template)

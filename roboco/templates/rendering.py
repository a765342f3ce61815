"""Rendering by MiniJinja: checks a template, then renders it with fuel, which bounds time and memory.

The variables become literals at the start of the template. Thus all values are MiniJinja's: they cost fuel and have no
methods of Python.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

from minijinja import Environment, TemplateError

from roboco.domain.team.team import MAX_PROMPT_CHARS
from roboco.templates.syntax import (
    MAX_CODE_TOKENS,
    assigned_names,
    code_mistakes,
    count_copies,
    read_code,
)

VARIABLES: Final = ("task", "team", "agent", "context", "output", "state")
"""Variables of a template, beside its own ones and `loop`."""
TASK_FIELDS: Final = ("id", "prompt")
"""The fields of the variable `task`."""
_UNCLOSED: Final = {"variable block": "}}", "block": "%}, or the {% end... %} of a block,"}
"""The missing text, by the token that MiniJinja expects."""
MAX_TEXT_CHARS = 1024 * 1024
"""Maximum number of characters of a rendered prompt."""
FUEL = 50_000
"""The instructions of a rendering. 64 bytes of a text cost one, and so do 4 bytes of JSON: about 20 ms and 3 MB.

Comparisons of large lists cost little fuel, but up to about 0.5 s.
"""
_REFUSED_FUNCTIONS = ("cycler", "debug", "dict", "joiner", "namespace")
"""Functions of MiniJinja that Roboco does not offer. An object of `namespace` may contain itself."""
_NO_VALUE_YET = re.compile(r"`(output|state)(?:\.(\w+)|\['([^']*)'\])` is undefined")
_UNDEFINED_CONTEXT = re.compile(r"`context((?:\.\w+|\['[^']*'\])+)` is undefined")
MAX_VALUES = 5000
"""Maximum number of values in the variables of a template with code. A comparison visits them without fuel."""
_NATIVE_INTEGERS = range(-(2**63), 2**63)


class TemplateFailure(ValueError):
    """A template cannot be rendered; the message contains the line, the problem and the remedy."""

    def __init__(self, message: str, undefined: tuple[str, ...] = (), too_early: bool = False) -> None:
        super().__init__(message)
        self.too_early = too_early
        """True if it uses an output or a value of the state that does not exist yet."""
        self.undefined = undefined
        """The names that lead to the missing value of the context, or () for another failure."""


@cache
def _environment(fuel: int) -> Environment:
    environment = Environment(fuel=fuel, undefined_behavior="strict", keep_trailing_newline=True)
    for name in _REFUSED_FUNCTIONS:
        environment.remove_global(name)
    return environment


def find_mistakes(template: str) -> list[str]:
    """Return the mistakes of the template that can be found without its variables."""
    mistakes = list(_check(template)[0])
    if not mistakes:
        absent = sorted(
            name for name in used_names(template) if name.startswith("task.") and name.split(".")[1] not in TASK_FIELDS
        )
        mistakes = [f"unknown variable {name!r:.80}, possible are task.id, task.prompt" for name in absent]
    return mistakes


def used_names(template: str) -> set[str]:
    """Return the variables that the template uses, with the attributes that it names, such as `task.id`."""
    return set(_environment(FUEL).undeclared_variables_in_str(template, nested=True))


@lru_cache(maxsize=32)
def _check(template: str) -> tuple[tuple[str, ...], int]:
    """Return the mistakes of the template, and how often it may double a value."""
    if len(template) > MAX_PROMPT_CHARS:
        return (f"has {len(template)} characters, at most {MAX_PROMPT_CHARS} are possible",), 0
    code = read_code(template)
    if code is None:
        return (f"has more than {MAX_CODE_TOKENS} words and signs of code, make it simpler",), 0
    try:
        unknown = _environment(FUEL).undeclared_variables_in_str(template) - {*VARIABLES, "range", "loop"}
    except TemplateError as error:
        problem = error.detail or error.message
        for end, missing in _UNCLOSED.items():
            problem = f"{missing} is missing" if problem.endswith(f"expected end of {end}") else problem
        return (f"line {error.line}: is not a Jinja template: {problem}",), 0
    unknown -= assigned_names(code)
    lines = {name: line for line, _, tokens in reversed(code) for name in tokens if name in unknown}
    mistakes = (
        f"line {line}: unknown variable {name!r:.80}, possible are {', '.join(VARIABLES)}"
        for line, name in sorted((line, name) for name, line in lines.items())
    )
    return (*code_mistakes(code), *mistakes), count_copies(code)


def render(template: str, variables: Mapping[str, Any], fuel: int = FUEL) -> str:
    """Return the rendered template. Raise TemplateFailure if it fails, takes too much work or becomes too long."""
    mistakes, copies = _check(template)
    if mistakes:
        raise TemplateFailure(mistakes[0])
    if sum(map(_count_values, variables.values())) > MAX_VALUES:
        raise TemplateFailure(f"its variables have more than {MAX_VALUES} values; pass a smaller context, or a text")
    values = "".join(f"{{% set {name} = {_literal(value)} %}}" for name, value in variables.items())
    try:
        rendered = _environment(fuel >> copies).render_str(values + template)
    except TemplateError as error:
        raise _failure(error) from error
    if len(rendered) > MAX_TEXT_CHARS:
        raise TemplateFailure(f"it becomes longer than {MAX_TEXT_CHARS} characters")
    return rendered


def _count_values(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return 1 + sum(map(_count_values, items))


def _literal(value: Any) -> str:
    """Return the JSON value as it is written in a template. Whole numbers of more than 64 bits become texts."""
    match value:
        case dict():
            return f"{{{', '.join(f'{_literal(name)}: {_literal(item)}' for name, item in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(_literal, value))}]"
        case str():
            return json.dumps(value)
        case int() if value not in _NATIVE_INTEGERS:
            return f"'{value}'"
        case _:
            return repr(value)


def _failure(error: TemplateError) -> TemplateFailure:
    problem, line = error.detail or error.message.partition(" (in ")[0], f"line {error.line}: "
    if error.kind == "OutOfFuel":
        return TemplateFailure(f"{line}it takes too much work; loop less and make smaller texts")
    if error.kind != "UndefinedError":
        return TemplateFailure(line + problem)
    if (early := _NO_VALUE_YET.search(problem)) is not None:
        name = early[2] or early[3]
        what = f"agent {name!r} has no output yet" if early[1] == "output" else f"the state has no {name!r} yet"
        return TemplateFailure(f"{line}{what}; set it before this agent acts, or ask with 'is defined'", too_early=True)
    if (missing := _UNDEFINED_CONTEXT.search(problem)) is None:
        return TemplateFailure(f"{line}{problem}; 'is defined' asks, and the filter 'default' replaces it")
    path = re.findall(r"\w+(?=\.|\[|$)|(?<=')[^']+(?=')", missing[1])
    return TemplateFailure(line + _remedy(path), tuple(path))


def _remedy(path: list[str]) -> str:
    shown, value = ".".join(path), "..."
    for name in reversed(path):
        value = f"{{{json.dumps(name)}: {value}}}"
    by_option = f"--context {shown}=... (command line) or " if len(path) == 1 else ""
    return f"the context of the task has no {shown!r}: pass {by_option}context={value} (Python)"

"""context_schema: the JSON Schema of a team's context, as the templates of its prompts reveal it.

    template ─► paths `context.A.B` in its code ─► properties; required, if each trial fails without the value

A template does not declare types, so every value is allowed. The trials give every required value as an empty and as a
filled text. The schema is a help for forms and clients: the check of a submission is the rendering itself.
"""

import re
from collections.abc import Iterable
from itertools import takewhile
from typing import Any, Final

from roboco.templates.syntax import is_plain_text, read_code
from roboco.templates.templates import check_template

_METHODS: Final = ("get", "items", "keys", "values")
_PATH: Final = re.compile(r"""(?<!\. )\bcontext((?: \. \w+| \[ (?:'[^']*'|"[^"]*") \])+)""")
_TRIAL_FUEL: Final = 5000
_MAX_REQUIRED: Final = 100
Path = tuple[str, ...]


def context_schema(templates: Iterable[str]) -> dict[str, Any]:
    """Return the schema of an object with the values that these templates use. A template with mistakes adds none."""
    root: dict[str, Any] = {"type": "object", "properties": {}}
    for template in templates:
        if is_plain_text(template) or check_template(template):
            continue
        required = _required_paths(template, "") & _required_paths(template, "x")
        for path in sorted(_used_paths(template) | required):
            _add(root, path, path in required)
    return root


def _used_paths(template: str) -> set[Path]:
    """Return the names after `context`, up to the first one that is computed, wherever the code has some."""
    paths: set[Path] = set()
    for _, _, tokens in read_code(template) or []:
        for found in _PATH.finditer(" ".join(tokens)):
            names = (name.strip("'\"") for name in found[1].split() if name not in ".[]")
            paths.add(tuple(takewhile(lambda name: name not in _METHODS, names)))
    return paths - {()}


def _required_paths(template: str, filler: str) -> set[Path]:
    """Return the values without which a trial fails, if each other required value is the filler."""
    from roboco.templates.rendering import TemplateFailure, render

    context: dict[str, Any] = {}
    named = {"name": filler, "description": filler}
    known = {"task": {"id": filler, "prompt": filler}, "team": named | {"agents": []}, "agent": named}
    found: set[Path] = set()
    while len(found) < _MAX_REQUIRED:
        try:
            render(template, known | {"context": context}, _TRIAL_FUEL)
        except TemplateFailure as failure:
            if not failure.undefined or failure.undefined in found:
                return found
            found.add(failure.undefined)
            _put(context, failure.undefined, filler)
        else:
            return found
    return found


def _put(context: dict[str, Any], path: Path, value: str) -> None:
    *parents, last = path
    for name in parents:
        if not isinstance(context.get(name), dict):
            context[name] = {}
        context = context[name]
    context[last] = value


def _add(schema: dict[str, Any], path: Path, required: bool) -> None:
    """Add the property at a path, with an object for each name before its last one."""
    for position, name in enumerate(path):
        if required and name not in schema.get("required", []):
            schema.setdefault("required", []).append(name)
        schema = schema["properties"].setdefault(name, {})
        if position + 1 < len(path):
            schema.setdefault("type", "object")
            schema.setdefault("properties", {})

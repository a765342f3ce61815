"""field_descriptions: adds the docstrings of a model's fields to its JSON Schema, for editors.

Pydantic can do so itself, but then each import parses the source of every model. Only `roboco schema` needs them.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

_DESCRIBED = ("roboco.domain.", "roboco.client.", "roboco.gateway.")
"""The packages whose models have docstrings for fields."""


def describe_fields(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add descriptions to the properties of a model's schema, and to those of the models in its `$defs`."""
    for kind in _subclasses(BaseModel):
        properties = schema.get("$defs", {}).get(kind.__name__, {}).get("properties", {})
        properties |= schema.get("properties", {}) if kind is model else {}
        for name, text in (field_docstrings(kind) if properties else {}).items():
            if name in properties:
                properties[name].setdefault("description", text)


def field_docstrings(kind: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of a model's fields, also of those that it inherits, by the names that its JSON has."""
    texts = {name: text for base in reversed(kind.__mro__) for name, text in _docstrings(base)}
    fields = kind.model_fields.items()
    return {field.alias or name: texts[name] for name, field in fields if name in texts}


def _subclasses(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in kind.__subclasses__():
        if one.__module__.startswith("roboco.domain."):
            yield one
        yield from _subclasses(one)


def _docstrings(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the name and docstring of each field of the class itself."""
    if not kind.__module__.startswith(_DESCRIBED):
        return
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = declared.body if isinstance(declared, ast.ClassDef) else []
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                yield name, inspect.cleandoc(docstring)
            case _:
                pass

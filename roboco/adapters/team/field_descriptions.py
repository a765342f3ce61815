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


def describe_fields(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add descriptions to the properties of a model's schema, and to those of the models in its `$defs`."""
    for kind in _subclasses(BaseModel):
        properties = schema.get("$defs", {}).get(kind.__name__, {}).get("properties", {})
        properties |= schema.get("properties", {}) if kind is model else {}
        bases = reversed(kind.__mro__) if properties else ()
        docstrings = {name: text for base in bases for name, text in _docstrings(base)}
        for name, field in kind.model_fields.items():
            if name in docstrings and (field.alias or name) in properties:
                properties[field.alias or name].setdefault("description", docstrings[name])


def _subclasses(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for one in kind.__subclasses__():
        if one.__module__.startswith("roboco.domain."):
            yield one
        yield from _subclasses(one)


def _docstrings(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the name and docstring of each field of the class itself."""
    if not kind.__module__.startswith("roboco.domain."):
        return
    [declared] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    body = declared.body if isinstance(declared, ast.ClassDef) else []
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(docstring))):
                yield name, inspect.cleandoc(docstring)
            case _:
                pass

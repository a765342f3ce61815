"""A listing of the OpenAPI document of the REST routes: what generated clients depend on.

Write it after a change that is meant: python -m tests.contract.gateway.operations
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.support.gateway_rest import rest_world

LISTING: Final = Path(__file__).with_name("operations.txt")
TAGS: Final = frozenset({"teams", "tasks", "controls", "calls", "records", "files", "operations"})


def listing(document: dict[str, Any]) -> str:
    """Return a line for each operation, parameter and response, and for each field of their schemas."""
    lines: list[str] = []
    used: set[str] = set()
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            if TAGS.intersection(operation.get("tags", ())):
                lines += [f"{method.upper()} {path} {operation['operationId']}", *_operation_lines(operation)]
                used |= set(_references(operation))
    schemas = document["components"]["schemas"]
    waiting = sorted(used)
    while waiting:
        more = set(_references(schemas[waiting.pop()])) - used
        used |= more
        waiting += more
    for name in sorted(used):
        lines += [f"schema {name}", *(f"  {line}" for line in _schema_lines(schemas[name]))]
    return "".join(f"{line}\n" for line in lines)


def _operation_lines(operation: dict[str, Any]) -> Iterator[str]:
    for one in operation.get("parameters", ()):
        needed = "required " if one.get("required") else ""
        yield f"  {one['in']} {one['name']}: {needed}{_kind(one['schema'])}"
    body = operation.get("requestBody")
    if body is not None:
        kinds = ", ".join(f"{kind} {_kind(media['schema'])}" for kind, media in sorted(body["content"].items()))
        yield f"  body: {'required ' if body.get('required') else ''}{kinds}"
    statuses: dict[str, list[str]] = {}
    for status, response in sorted(operation["responses"].items()):
        content = response.get("content", {})
        kinds = ", ".join(f"{kind} {_kind(media.get('schema', {}))}" for kind, media in sorted(content.items()))
        statuses.setdefault(kinds or "no body", []).append(status)
    yield from (f"  {' '.join(names)}: {kinds}" for kinds, names in statuses.items())


def _schema_lines(schema: dict[str, Any]) -> Iterator[str]:
    if "properties" not in schema:
        yield _kind(schema)
    for name, field in sorted(schema.get("properties", {}).items()):
        needed = "required " if name in schema.get("required", ()) else ""
        yield f"{name}: {needed}{_kind(field)}"


def _kind(schema: dict[str, Any]) -> str:
    """Return a short name of the type of a schema."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return " | ".join(_kind(one) for one in schema[union])
    if "enum" in schema or "const" in schema:
        return "/".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"[{_kind(schema.get('items', {}))}]"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{{{_kind(schema['additionalProperties'])}}}"
    return str(schema.get("type", "any"))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, rest_world(Path(folder)) as rest:
        LISTING.write_text(listing(rest.app.openapi()))

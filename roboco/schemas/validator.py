"""Validation by the library jsonschema-rs: draft 2020-12 without formats, with regular expressions of linear time.

Functions import this module, because a client without schemas does not need the library.
"""

from typing import Any

from jsonschema_rs import Draft202012Validator, RegexOptions, ValidationError, ValidationErrorKind

from roboco.domain.canonical_json import canonical_json
from roboco.schemas.rules import shorten

MAX_EXPLAINED = 5_000_000
"""The largest product of a value's characters and its steps whose error is explained: alternatives copy the value."""


def find_schema_mistake(schema: dict[str, Any]) -> str:
    """Return why the library cannot use the schema, or "" if it can."""
    try:
        _compiled(schema)
    except ValidationError as error:
        return f"is no JSON Schema: {_explain(error)}"
    return ""


def find_error(schema: dict[str, Any], value: Any, steps: int) -> str:
    """Return why the value does not fit the schema, with its path, or "" if it fits.

    Raise ValueError if the library cannot use the schema.
    """
    try:
        validator = _compiled(schema)
    except ValidationError:  # only a tool function has such a pattern, and it validates its arguments itself
        validator = _compiled(schema, keywords={"pattern": _AnyText})
    if validator.is_valid(value):
        return ""
    if steps * len(canonical_json(value)) > MAX_EXPLAINED:
        return "$: the value does not fit, and is too large to say why"
    try:
        validator.validate(value)
    except ValidationError as error:
        return _explain(error)
    return ""


class _AnyText:
    """The keyword `pattern` without effect."""

    def __init__(self, *_: object) -> None:
        """Accept each pattern."""

    def validate(self, _: object) -> None:
        """Accept each value."""


def _compiled(schema: dict[str, Any], **options: Any) -> Draft202012Validator:
    known = {keyword: value for keyword, value in schema.items() if keyword not in ("$schema", "$id")}
    return Draft202012Validator(known, validate_formats=False, offline=True, pattern_options=RegexOptions(), **options)


def _explain(error: ValidationError) -> str:
    """Return the message, with the first reason of each alternative if the value fits none."""
    alternatives: list[list[ValidationError]] = getattr(error.kind, "context", [])
    reasons = [shorten(_message(one[0]), 100) for one in alternatives[:3] if all(alternatives)]
    return f"{_message(error)}{': ' * bool(reasons)}{'; '.join(reasons)}"


def _message(error: ValidationError) -> str:
    """Return the message with the path of the value. It is more exact than the library's for `enum` and `contains`."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    message = error.message
    if isinstance(error.kind, ValidationErrorKind.Enum):
        options = error.kind.options
        listed = ", ".join(shorten(canonical_json(one), 60) for one in options[:5])
        message = f"{canonical_json(error.instance)} is not one of {listed}{', ...' * (len(options) > 5)}"
    elif isinstance(error.kind, ValidationErrorKind.Contains):
        message = f"{canonical_json(error.instance)} has too few or too many items that fit 'contains'"
    return f"{shorten(f'${path}', 150)}: {shorten(message, 240)}"

"""JSON in one spelling, so that equal values have equal bytes and a digest means something."""

import hashlib
import json
from typing import Any

MAX_DEPTH = 64
"""How deep JSON from outside may be nested; parsers refuse much deeper values."""


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces and unescaped UTF-8; NaN and infinities are refused (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256(text: str) -> str:
    """The hexadecimal SHA-256 of the text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced, so that UTF-8 can carry it.

    Models cut emoji into escaped halves, and JSON from outside may hold lone ones.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def well_formed_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The JSON value with every text in it well formed; ValueError if it is nested deeper than `depth`."""
    if depth < 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            return well_formed(value)
        case list() | tuple():
            return [well_formed_json(item, depth - 1) for item in value]
        case dict():
            return {_key(key): well_formed_json(item, depth - 1) for key, item in value.items()}
        case _:
            return value


def checked_json(value: Any) -> Any:
    """The value in well-formed JSON; ValueError if it is none, for instance for NaN, a date or deep nesting."""
    clean = well_formed_json(value)
    try:
        canonical(clean)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return clean


def _key(key: object) -> object:
    return well_formed(key) if isinstance(key, str) else key

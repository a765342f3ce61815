"""JSON in one canonical form: equal values have equal bytes, and therefore equal digests."""

import hashlib
import json
from typing import Any

MAX_DEPTH = 64
"""The deepest nesting of JSON from outside; parsers refuse much deeper values."""


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys, no spaces and unescaped UTF-8.

    Raise ValueError for NaN and infinities.
    """
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
"""Made once: `json.dumps` makes one for each call with such options."""


def json_bytes(value: Any) -> int:
    """Return the size of the value's canonical JSON in bytes."""
    return len(canonical_json(value).encode())


def sha256(text: str) -> str:
    """Return the hexadecimal SHA-256 of the text in UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def well_formed(text: str) -> str:
    """Return the text with surrogate pairs joined and lone surrogates replaced, so that UTF-8 can encode it.

    Models split emoji into escaped halves, and JSON from outside may contain lone ones.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def well_formed_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the JSON value with every text in it well formed.

    Raise ValueError if it is nested deeper than `depth`.
    """
    if depth < 0:
        raise ValueError(f"nested deeper than {MAX_DEPTH} levels")
    match value:
        case str():
            return well_formed(value)
        case list() | tuple():
            return [well_formed_json(item, depth - 1) for item in value]
        case dict():
            return {_well_formed_key(key): well_formed_json(item, depth - 1) for key, item in value.items()}
        case _:
            return value


def validated_json(value: Any) -> Any:
    """Return the value as well-formed JSON.

    Raise ValueError if it is not JSON, for instance if it contains NaN, a date or deep nesting.
    """
    clean = well_formed_json(value)
    try:
        canonical_json(clean)
    except TypeError as error:
        raise ValueError(str(error)) from error
    return clean


def _well_formed_key(key: object) -> object:
    return well_formed(key) if isinstance(key, str) else key

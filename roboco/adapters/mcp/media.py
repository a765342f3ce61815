"""Images, sounds and other files in the result of an MCP server's tool, extracted from its JSON.

A model cannot read base64, and each of its characters costs tokens.
"""

import base64
import binascii
import re
from typing import Any

from roboco.domain.history.media import MAX_MEDIA_FILES, Media

_WHITESPACE = b" \t\n\r\f\v"
_DATA_URL_PREFIX = re.compile(rb"(?i)data:[^,]{0,200};base64,")


class ContentParts(list[dict[str, Any]]):
    """Parts that `result_json` makes from a result's content. Any other list is structured content of the server."""


def extract_media(result: Any) -> tuple[Any, tuple[Media, ...]]:
    """Return the result of `result_json` without base64 data, and the files that it contains.

    Only ContentParts contain files: structured content may be any list, and stays unchanged. A part whose data is
    unusable or exceeds the number of files has the reason in `left_out`. If a structured part repeats the data of
    another part, a reference to that part replaces it.
    """
    if not isinstance(result, ContentParts):
        return result, ()
    parts: list[Any] = []
    media: list[Media] = []
    data = {part["data"]: place for place, part in enumerate(result) if isinstance(part.get("data"), str)}
    for place, part in enumerate(result):
        if "data" in part:
            found = (
                _extract_file(place, part)
                if len(media) < MAX_MEDIA_FILES
                else f"a result keeps at most {MAX_MEDIA_FILES} files"
            )
            rest = {name: value for name, value in part.items() if name != "data"}
            parts.append(rest if isinstance(found, Media) else rest | {"left_out": found})
            media += [found] if isinstance(found, Media) else []
        else:
            parts.append(part | {"value": _replace_data(data, part["value"])} if part["type"] == "structured" else part)
    return parts, tuple(media)


def _extract_file(place: int, part: dict[str, Any]) -> Media | str:
    """Return the file in the part, or the reason why there is none."""
    try:
        data = _decode_base64(part["data"])
    except (binascii.Error, ValueError):
        return "its data is not base64"
    return Media(place, part["type"], part["mime_type"] or "", data) if data else "its data is empty"


def _decode_base64(text: str) -> bytes:
    """Return the decoded bytes. Raise ValueError if the text is not base64.

    Line breaks and a preceding `data:` URL prefix are accepted.
    """
    digits = text.encode("ascii").translate(None, _WHITESPACE)
    prefix = _DATA_URL_PREFIX.match(digits)
    return base64.b64decode(digits[prefix.end() :] if prefix else digits, validate=True)


def _replace_data(data: dict[str, int], value: Any) -> Any:
    match value:
        case str() if value in data:
            return f"(the data of part {data[value] + 1} of this result)"
        case list():
            return [_replace_data(data, item) for item in value]
        case dict():
            return {name: _replace_data(data, item) for name, item in value.items()}
        case _:
            return value

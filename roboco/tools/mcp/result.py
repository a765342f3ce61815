"""Results of an MCP server's tool calls, as JSON. Each part of a result is read alone: an odd one loses no other."""

import base64
import json
import re
from typing import Any

from roboco.domain.canonical_json import canonical_json, validated_json
from roboco.domain.history.part import MAX_MEDIA_FILES, Media

MAX_ERROR_CHARS = 4000
"""Maximum number of characters of an error that are passed on."""
NO_CONTENT = "(the tool returned no content)"
_MAX_SHOWN_KIND_CHARS, _MAX_LEFT_OUT_CHARS = 40, 1000
_WHITESPACE, _URL_SAFE = b" \t\n\r\f\v=", bytes.maketrans(b"-_", b"+/")
_DATA_URL_PREFIX = re.compile(rb"(?i)\Adata:[^,]{0,200};base64,")
_ENVELOPE = frozenset({"content", "structuredContent", "isError", "resultType", "_meta"})
_RESOURCE_FIELDS = {"uri": "uri", "mimeType": "mime_type", "text": "text", "blob": "data"}
_LINK_FIELDS = {"uri": "uri", "name": "name", "title": "title", "description": "description", "mimeType": "mime_type"}


def result_of(raw: dict[str, Any]) -> tuple[Any, tuple[Media, ...]]:
    """Return the result of a call without its base64 data, and the files in it.

    It is a text, the structured content, or a list of parts if there is more than one of them. A part is an object with
    a `type`: `structured` (`value`), `text`, `image` and `audio` (`mime_type`), `resource` (`uri`, `mime_type`, perhaps
    `text`), `resource_link` (`uri`, `name`, `title`, `description`, `mime_type`) or `left_out` (`reason`, and the
    beginning of its `json`). A file that cannot be kept has the reason in `left_out`.
    """
    structured = _structured(raw)
    parts = [_part(block) for block in _blocks(raw)]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    if len(texts) == len(parts) and (not structured or _repeats(texts, structured[0])):
        return (structured[0] if structured else "\n".join(texts) or NO_CONTENT), ()
    return _without_files([*({"type": "structured", "value": value} for value in structured), *parts])


def error_of(raw: dict[str, Any]) -> str:
    """Return the text of a result that reports an error."""
    result, media = result_of(raw)
    if isinstance(result, list):
        result = "\n".join(_shown(part) for part in result)
    text = result if isinstance(result, str) else canonical_json(result)
    return "the tool failed and gave no reason" if text in ("", NO_CONTENT) and not media else text[:MAX_ERROR_CHARS]


def _shown(part: dict[str, Any]) -> str:
    shown = part.get("text") or part.get("value") or part
    return shown if isinstance(shown, str) else canonical_json(shown)


def _blocks(raw: dict[str, Any]) -> list[Any]:
    content = raw.get("content")
    return content if isinstance(content, list) else [] if content is None else [content]


def _structured(raw: dict[str, Any]) -> list[Any]:
    """Return a list with the structured content, or with the fields of a result that has no content; else []."""
    value = raw.get("structuredContent")
    if value is None and raw.get("content") is None:
        value = {name: one for name, one in raw.items() if name not in _ENVELOPE} or None
    try:
        return [] if value is None else [validated_json(value)]
    except ValueError as error:
        return [f"(left out: the structured content is no JSON: {error})"]


def _repeats(texts: list[str], structured: Any) -> bool:
    """Return True if the texts only repeat the structured content, as servers do for clients that cannot read it."""
    if not texts:
        return True
    only = structured["result"] if isinstance(structured, dict) and list(structured) == ["result"] else structured
    read = [_parsed(text) for text in texts]
    return any(known in (structured, only) for known in (texts[0], read[0])) if len(texts) == 1 else read == only


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _part(block: Any) -> dict[str, Any]:
    try:
        return _known_part(validated_json(block))
    except ValueError as error:
        return {"type": "left_out", "reason": f"a part of the result is no JSON: {error}"}


def _known_part(block: Any) -> dict[str, Any]:
    match block:
        case {"type": "image" | "audio" as kind, "data": str(data)}:
            return {"type": kind, "mime_type": block.get("mimeType"), "data": data}
        case {"type": "resource_link", "uri": str()}:
            return {"type": "resource_link"} | {new: block[old] for old, new in _LINK_FIELDS.items() if block.get(old)}
        case {"type": "resource", "resource": {"text": str()} | {"blob": str()} | {"uri": str()} as held}:
            return {"type": "resource"} | {
                new: held[old] for old, new in _RESOURCE_FIELDS.items() if isinstance(held.get(old), str)
            }
        case {"text": text} if text is not None:
            return {"type": "text", "text": text if isinstance(text, str) else canonical_json(text)}
        case str():
            return {"type": "text", "text": block}
        case {"type": str(kind)}:
            reason = f"a part of type {kind[:_MAX_SHOWN_KIND_CHARS]!r}, which is unknown or lacks its content"
        case _:
            reason = "a part without a type"
    return {"type": "left_out", "reason": reason, "json": canonical_json(block)[:_MAX_LEFT_OUT_CHARS]}


def _without_files(parts: list[dict[str, Any]]) -> tuple[list[Any], tuple[Media, ...]]:
    """Return the parts without base64 data, which no model can read, and the files.

    If a structured part repeats the data of another part, a reference to that part replaces it.
    """
    media: list[Media] = []
    places = {part["data"]: place for place, part in enumerate(parts) if "data" in part}
    shown: list[Any] = []
    for place, part in enumerate(parts):
        rest = {name: value for name, value in part.items() if name != "data" and value is not None}
        if part["type"] == "structured":
            rest["value"] = _replace_data(places, part["value"])
        elif "data" in part:
            full = len(media) >= MAX_MEDIA_FILES
            found = f"a result keeps at most {MAX_MEDIA_FILES} files" if full else _file(place, part)
            if isinstance(found, Media):
                media.append(found)
            else:
                rest["left_out"] = found
        shown.append(rest)
    return shown, tuple(media)


def _file(place: int, part: dict[str, Any]) -> Media | str:
    """Return the file in the part, or the reason why there is none. Its base64 may have lines and begin as a URL."""
    try:
        text = part["data"].encode("ascii").translate(None, _WHITESPACE)
        digits = _DATA_URL_PREFIX.sub(b"", text, count=1).translate(_URL_SAFE)
        data = base64.b64decode(digits + b"=" * (-len(digits) % 4), validate=True)
    except ValueError:
        return "its data is not base64"
    mime_type = part.get("mime_type")
    kind = mime_type if isinstance(mime_type, str) else ""
    return Media(place, part["type"], kind, data) if data else "its data is empty"


def _replace_data(places: dict[str, int], value: Any) -> Any:
    match value:
        case str() if value in places:
            return f"(the data of part {places[value] + 1} of this result)"
        case list():
            return [_replace_data(places, item) for item in value]
        case dict():
            return {name: _replace_data(places, item) for name, item in value.items()}
        case _:
            return value

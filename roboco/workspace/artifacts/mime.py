"""MIME types of files, by their content, and by their name if the content does not decide."""

import mimetypes

import puremagic

HEAD_BYTES = 4096
"""Bytes of a file that decide its type."""
_TEXT_TYPES = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".xml": "application/xml",
    ".html": "text/html",
    ".svg": "image/svg+xml",
    ".py": "text/x-python",
}
_UNKNOWN_TYPE = "application/octet-stream"


def mime_of(name: str, head: bytes) -> str:
    """Return the type of a file with this name and these first bytes. A name never makes a text an image."""
    ending = f".{name.rpartition('.')[2].lower()}" if "." in name else ""
    if _is_text(head):
        guessed = _TEXT_TYPES.get(ending) or mimetypes.guess_type(name)[0] or ""
        return guessed if guessed.startswith("text/") or ending in _TEXT_TYPES else "text/plain"
    return _by_content(name, head) or _UNKNOWN_TYPE


def is_text(mime_type: str) -> bool:
    """Return True if files of this type are text."""
    kind = mime_type.partition(";")[0].strip().lower()
    return kind.startswith("text/") or kind.endswith(("json", "+json", "jsonl", "xml", "yaml", "x-sh", "javascript"))


def _is_text(head: bytes) -> bool:
    """Return True if the bytes are UTF-8 without control characters. The last character may be incomplete."""
    if b"\0" in head:
        return False
    for cut in range(4):
        try:
            text = head[: len(head) - cut].decode()
        except UnicodeDecodeError:
            continue
        return all(character >= " " or character in "\t\r\n\f\b\x1b" for character in text)
    return False


def _by_content(name: str, head: bytes) -> str:
    try:
        found = puremagic.magic_string(head, name)
    except (puremagic.PureError, ValueError):
        return ""
    known = [one.mime_type for one in found if one.mime_type and one.confidence >= 0.3]
    return str(known[0]) if known else ""

"""file_headers: headers of a file that keep a browser from running it.

Agents and users write files, so their content is hostile input. A file is an attachment, a browser must not guess its
type, and a document in it has an origin without rights. Types that a browser can run, such as HTML and SVG, are sent as
plain bytes; the list of files has the true type.
"""

import re
from collections.abc import Mapping
from typing import Final

from roboco.domain.history.part import Artifact
from roboco.gateway.rest.caching import PRIVATE

SAFE_TYPES: Final = frozenset(
    {"application/json", "application/jsonl", "application/pdf", "application/zip"}
    | {f"image/{name}" for name in ("gif", "jpeg", "png", "webp")}
    | {f"text/{name}" for name in ("csv", "markdown", "plain")}
)
"""Types that are sent as they are, beside audio and video."""
_UNKNOWN_TYPE: Final = "application/octet-stream"
_MEDIA: Final = re.compile(r"(audio|video)/[a-z0-9][a-z0-9.+-]{0,126}")
"""Agents declare types: anything else in one, such as a line break, would be another header."""
_SAFETY: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Accept-Ranges": "bytes",
}


def file_etag(file: Artifact) -> str:
    """Return the entity tag of a file. Files never change: another content has another name."""
    return f'"{file.sha256 or f"{file.name}-{file.size}"}"'


def safe_type(mime_type: str) -> str:
    """Return the type if no browser runs its content, else that of plain bytes. Texts are UTF-8."""
    kind = mime_type.partition(";")[0].strip().lower()
    if kind not in SAFE_TYPES and _MEDIA.fullmatch(kind) is None:
        return _UNKNOWN_TYPE
    return f"{kind}; charset=utf-8" if kind.startswith("text/") else kind


def file_headers(file: Artifact) -> dict[str, str]:
    """Return the headers of a response with the file, or a part of it. The name needs no quoting, by its alphabet."""
    return {
        "Content-Type": safe_type(file.mime_type),
        "Content-Disposition": f'attachment; filename="{file.name}"',
        "ETag": file_etag(file),
        **_SAFETY,
        **PRIVATE,
    }

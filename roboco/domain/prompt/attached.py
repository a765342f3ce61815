"""attached: files as parts of messages, in the format of chat completions, with their URIs in place of their data."""

from collections.abc import Mapping
from typing import Any, Final

from roboco.domain.history.part import Artifact
from roboco.domain.team.model_profile import FileKind
from roboco.domain.tokens import IMAGE_TOKENS

MessagePart = dict[str, Any]
_KINDS: Final[Mapping[str, FileKind]] = {
    "image/png": "image",
    "image/jpeg": "image",
    "image/gif": "image",
    "image/webp": "image",
    "application/pdf": "pdf",
    "audio/wav": "audio",
    "audio/wave": "audio",
    "audio/x-wav": "audio",
    "audio/mpeg": "audio",
}
_PDF_BYTES_PER_TOKEN, _AUDIO_BYTES_PER_TOKEN = 40, 500
"""Bytes of a file for which a token is estimated: a page of text is about 100 KB and 2,500 tokens, a second of sound
16 KB and 32."""


def kind_of(artifact: Artifact) -> FileKind | None:
    """Return the kind of the file if some models accept it."""
    return _KINDS.get(artifact.mime_type)


def file_kind(data: bytes) -> FileKind | None:
    """Return the kind of a file by its first bytes, or None if no model accepts it."""
    return _KINDS.get(file_mime_type(data) or "")


def attached_part(artifact: Artifact) -> MessagePart:
    """Return the part of a file that has a kind."""
    return file_part(kind_of(artifact), artifact.uri, artifact.mime_type, artifact.name) | {"size": artifact.size}


def file_part(kind: FileKind | None, data: str, mime_type: str, name: str) -> MessagePart:
    """Return a part with this data: a URI, or for a model the URL of the data, of a sound the base64 alone."""
    match kind:
        case "pdf":
            return {"type": "file", "file": {"filename": name, "file_data": data}}
        case "audio":
            sound = {"data": data, "format": "mp3" if mime_type == "audio/mpeg" else "wav"}
            return {"type": "input_audio", "input_audio": sound}
        case _:
            return {"type": "image_url", "image_url": {"url": data}}


def data_of(part: Mapping[str, Any]) -> str | None:
    """Return the URI or the data of a part, or None for a text."""
    match part:
        case (
            {"type": "image_url", "image_url": {"url": str(data)}}
            | {"type": "file", "file": {"file_data": str(data)}}
            | {"type": "input_audio", "input_audio": {"data": str(data)}}
        ):
            return data
        case _:
            return None


def attached_tokens(part: Mapping[str, Any]) -> int:
    """Return an estimate of the tokens of a part; 0 for a text."""
    size = part.get("size") or 3 * len(data_of(part) or "") // 4
    match part["type"]:
        case "image_url":
            return IMAGE_TOKENS
        case "file":
            return max(IMAGE_TOKENS, size // _PDF_BYTES_PER_TOKEN)
        case "input_audio":
            return int(size // _AUDIO_BYTES_PER_TOKEN)
        case _:
            return 0


def file_mime_type(data: bytes) -> str | None:
    """Return the type of a file that models accept, from its first bytes, or None for anything else."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return "image/gif"
    if data.startswith(b"%PDF-"):
        return "application/pdf"
    if data.startswith(b"ID3") or (data[:1] == b"\xff" and data[1:2] in (b"\xfb", b"\xf3", b"\xf2")):
        return "audio/mpeg"
    return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12]) if data[:4] == b"RIFF" else None

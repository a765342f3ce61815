"""files: images, PDFs and sounds within messages, as files of the task.

A client sends the data itself: the gateway loads no address, and keeps no files beside those of tasks. A file is named
after its content, so that a repeated request attaches the same one.
"""

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO, Final

from roboco.domain.inbox.attachments import MAX_ARTIFACTS
from roboco.domain.prompt.chat import file_kind, file_mime_type
from roboco.domain.team.team import Team
from roboco.gateway.openai.problems import wrong_parameter

_ENDINGS: Final = {"audio/mpeg": "mp3", "image/jpeg": "jpg"}
_REMEDY: Final = "send the file itself, as data:TYPE;base64,DATA"


@dataclass(frozen=True)
class InlineFile:
    """A file within a message."""

    data: bytes
    where: str
    """Its place in the request, for errors."""

    @property
    def name(self) -> str:
        """The name of the file of the task."""
        kind = file_mime_type(self.data) or ""
        return f"oa-{hashlib.sha256(self.data).hexdigest()[:24]}.{_ENDINGS.get(kind, kind.partition('/')[2])}"


def inline_file(part: dict[str, Any], where: str) -> InlineFile | None:
    """Return the file of a content part, or None if it is another part. Raise Problem if it is no data."""
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
            return _decoded(url, where)
        case (
            {"type": "file", "file": {"file_data": str(url)}}
            | {"type": "input_file", "file_data": str(url)}
            | {"type": "input_audio", "input_audio": {"data": str(url)}}
        ):
            return _decoded(url, where)
        case {"type": "image_url" | "input_image" | "file" | "input_file" | "input_audio"}:
            raise wrong_parameter(where, "files are not loaded by an address or id", _REMEDY)
        case _:
            return None


def _decoded(text: str, where: str) -> InlineFile:
    head, comma, data = text.partition(",") if text.startswith("data:") else ("", ",", text)
    if not comma or (head and not head.endswith(";base64")) or text.startswith(("http:", "https:")):
        raise wrong_parameter(where, "files are not loaded by an address or id", _REMEDY)
    try:
        found = base64.b64decode(data, validate=True)
    except binascii.Error:
        raise wrong_parameter(where, "is not base64", _REMEDY) from None
    if file_kind(found) is None:
        raise wrong_parameter(where, "is no PNG, JPEG, GIF, WebP, PDF, MP3 or WAV file")
    return InlineFile(found, where)


def check_accepted(team: Team, files: Sequence[InlineFile]) -> None:
    """Raise Problem for too many files, and for the first one that no model of the team accepts."""
    if len({file.name for file in files}) > MAX_ARTIFACTS:
        raise wrong_parameter(files[-1].where, f"a conversation has at most {MAX_ARTIFACTS} files", "leave some out")
    accepted = {kind for agent in team.agents if agent.has_model for kind in team.profile(agent).accepted}
    for file in files:
        if (kind := file_kind(file.data)) not in accepted:
            remedy = f"leave it out, or add {kind!r} to `accepts` of a model profile of the team"
            raise wrong_parameter(file.where, f"no model of team {team.name!r} accepts {kind} files", remedy)


def store_files(
    files: Sequence[InlineFile], exists: Callable[[str], bool], upload: Callable[[BinaryIO, str], object]
) -> dict[str, Any]:
    """Store the files that do not exist, each once. Return the option of the message that attaches them."""
    named = {file.name: file for file in files}
    for name, file in named.items():
        if not exists(name):
            upload(BytesIO(file.data), name)
    return {"artifacts": list(named)} if named else {}

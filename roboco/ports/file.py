"""File: a file of a task, as tools return and read it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from roboco.domain.history.part import artifact_name
from roboco.errors import UsageError

MAX_FILES_BYTES = 64 * 1024 * 1024
"""The most bytes of all files of one result, and of a file that a tool reads as a whole."""


@dataclass(frozen=True)
class File:
    """A file that a tool returns, alone or in a list beside JSON values; or one that `ToolContext.artifact` returns.

    Its content is `data`, or is read from `path` when the tool has returned. A text is stored in UTF-8.
    """

    name: str
    """Letters, digits, '_', '-' and '.', such as "report.pdf"."""
    data: bytes | str | None = field(default=None, repr=False)
    path: Path | str | None = None
    mime_type: str = ""
    """For a text its kind, such as "text/csv". The type of any other file is detected."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Refuse a file as an argument: a model could name any path of the worker."""
        raise UsageError("a File is a result: take the name of an artifact, and read it with context.artifact(name)")

    def __post_init__(self) -> None:
        if artifact_name(self.name) != self.name:
            raise ValueError(f"File {self.name!r}: name it without a folder")
        if (self.data is None) == (self.path is None):
            raise ValueError(f"File {self.name!r}: give it either data or a path")

    @property
    def content(self) -> bytes:
        """Return the bytes. Raise OSError if the path cannot be read, and ValueError if the file is too large."""
        if self.path is not None:
            with Path(self.path).open("rb") as file:
                found = file.read(MAX_FILES_BYTES + 1)
        else:
            found = self.data.encode() if isinstance(self.data, str) else self.data or b""
        if len(found) > MAX_FILES_BYTES:
            raise ValueError(f"it has more than {MAX_FILES_BYTES} bytes")
        return found

"""The workspace: the histories and files of tasks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from roboco.domain.history.step import TaskStep


class Histories(Protocol):
    """The histories of tasks: append-only, one writer wins each position."""

    def append(self, task_id: str, step: TaskStep) -> TaskStep:
        """Store the sealed step at its position and return what stands there: ours, or the step that won."""

    def begin(self, task_id: str, lines: Sequence[bytes]) -> bool:
        """Store the lines as the first steps of a history that has none, all or nothing.

        True also if it begins with them already; False and nothing changed if it has others.
        """

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        """The committed steps from a position on, each exactly once and in order."""

    def lines(self, task_id: str) -> Iterator[bytes]:
        """The stored lines, unread, oldest first."""

    def fold(self, task_id: str) -> bool:
        """Gather the steps that are stored in pieces into `history.jsonl`; harmless at any moment and twice at once.

        Return True if `history.jsonl` now holds every step that was committed before the call. Return False if it may
        not, because another worker folds at the same time, or a step is missing: call again later.
        """


@dataclass(frozen=True)
class Versioned:
    """A file's bytes, and the version under which the store knows them."""

    data: bytes
    version: str
    """Opaque. Other bytes have another version; the same bytes may have the same version again."""


class Files(Protocol):
    """Files of the workspace by relative path; each is written whole or not at all."""

    def create(self, path: str, data: bytes) -> bool:
        """Store the file if there is none; False and nothing changed if another one stands there.

        True also if the same bytes stand there: an answer may have got lost.
        """

    def put(self, path: str, data: bytes) -> None:
        """Store the file, in place of an older one."""

    def get(self, path: str) -> bytes | None:
        """The file's bytes; None if there is none."""

    def get_versioned(self, path: str) -> Versioned | None:
        """The file's bytes and their version; None if there is none."""

    def replace(self, path: str, data: bytes, version: str | None) -> bool:
        """Store the file if it still has this version (None: if there is none).

        False, and nothing changed, if another write came first; the caller may read again and try again. True also if
        exactly these bytes are stored already: an answer may be lost. Write such a file with `create` and `replace`
        alone: in a folder, the lock of `replace` does not keep out a `put` or a `delete` at the same moment.
        """

    def put_from(self, path: str, source: BinaryIO) -> None:
        """Store all that the source still holds, of any size, in place of an older file."""

    def copy(self, source: str, path: str) -> None:
        """Store the bytes of another file, of any size, in place of an older one; nothing if there is no source."""

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """At most so many bytes of the file from a place on; None if there is no file."""

    def size(self, path: str) -> int | None:
        """How many bytes the file has; None if there is none."""

    def link(self, path: str, seconds: int) -> str | None:
        """A URL from which anybody may read the file for so many seconds; None where the store has no such thing."""

    def delete(self, path: str) -> None:
        """Remove the file, if it is there."""

    def names(self, folder: str) -> list[str]:
        """The names directly below a folder ("" or ending in "/"), sorted; of folders without the "/"."""

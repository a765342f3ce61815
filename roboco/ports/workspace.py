"""The files of the workspace."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True)
class VersionedFile:
    """A file's bytes, and the version under which the store knows them."""

    data: bytes
    version: str
    """Opaque. Other bytes have another version; the same bytes may have the same version again."""


@dataclass(frozen=True)
class FolderPage:
    """A page of the folders of a workspace."""

    names: tuple[str, ...]
    """The names; a page that is not the last one may have none."""
    cursor: str
    """The cursor of the next page, opaque; "" if this is the last page."""


@dataclass(frozen=True)
class StoredFile:
    """A file of the workspace."""

    path: str
    size: int
    """Bytes."""


class Files(Protocol):
    """Files of the workspace by relative path. Each is written whole or not at all, and is durable on return.

    With `durable` false, a power failure may undo a write until another one to the same folder has returned. A caller
    makes that one before anything relies on the file.
    """

    def create(self, path: str, data: bytes, durable: bool = True) -> bool:
        """Store the file if there is none. Return False, and change nothing, if there is another one.

        Return True also if the file has these bytes already: an answer may have been lost.
        """

    def put(self, path: str, data: bytes) -> None:
        """Store the file. It replaces an older one."""

    def get(self, path: str) -> bytes | None:
        """Return the file's bytes, or None if there is no file."""

    def get_many(self, paths: Sequence[str]) -> list[bytes | None]:
        """Return the bytes of each file, in the order of the paths, with None for a file that does not exist.

        The files are not read at one moment, nor in an order. Cost: one request each, on S3 at the same time.
        """

    def get_versioned(self, path: str) -> VersionedFile | None:
        """Return the file's bytes and their version, or None if there is no file."""

    def replace(self, path: str, data: bytes, version: str | None, durable: bool = True) -> bool:
        """Store the file if it still has this version (None: if there is none).

        Return False, and change nothing, if another write was first; the caller may read again and retry. Return True
        also if exactly these bytes are stored already: an answer may be lost. Write such a file with `create` and
        `replace` alone: in a folder, the lock of `replace` does not exclude a `put` or a `delete` at the same moment.
        """

    def put_from(self, path: str, source: BinaryIO) -> None:
        """Store the rest of the source, of any size. It replaces an older file.

        The source need not be seekable; it is then read once, and in bounded memory. If reading it fails, raise its
        error, and change nothing.
        """

    def copy(self, source: str, path: str) -> None:
        """Store the bytes of another file, of any size. It replaces an older file. Do nothing if there is no source."""

    def read(self, path: str, start: int, length: int) -> bytes | None:
        """Return at most `length` bytes of the file from a position on, or None if there is no file."""

    def size(self, path: str) -> int | None:
        """Return the size of the file in bytes, or None if there is no file."""

    def presigned_url(self, path: str, seconds: int) -> str | None:
        """Return a URL that allows anyone to read the file for these seconds, or None if the store has no such URLs."""

    def delete(self, path: str) -> None:
        """Remove the file, if it exists."""

    def names(self, folder: str) -> list[str]:
        """Return the names directly below a folder ("" or ending in "/"), sorted; those of folders without the "/"."""

    def names_after(self, folder: str, after: str, limit: int) -> list[str]:
        """Return the first names of files directly below the folder that follow `after`, in the order of code points.

        Fewer than `limit` names are the last ones. A file that is stored or removed between two pages may be in one of
        them or not. Cost: on S3 one request for each 1,000 names; in a folder, one scan of the whole folder.
        """

    def folders(self, cursor: str, limit: int) -> FolderPage | None:
        """Return a page of at most `limit` folders of the workspace, in the store's order; the first with cursor "".

        Return None if the store does not accept the cursor, because it has expired: begin again with the first page.
        A folder that exists all the time is in exactly one page. Cost: in S3 one request; in a folder one reading of
        the directory.
        """

    def tree(self, folder: str) -> Iterator[StoredFile]:
        """Yield the files at any depth below the folder, in the store's order.

        A file that is stored or removed meanwhile may be among them or not. Cost: on S3 one request for each 1,000
        files; in a folder, one scan of all files below it.
        """

    def delete_tree(self, folder: str, limit: int) -> int:
        """Remove at most `limit` files at any depth below the folder, whatever their names. Return how many were there.

        Return 0 once none is left; then empty folders are gone, too. A file that is stored meanwhile may remain. Cost:
        on S3 one request for each 1,000 files, and one for each file.
        """

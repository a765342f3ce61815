"""Streams that can be read once become artifacts, in a folder, in S3 and in memory."""

import hashlib
import io
import time
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

from roboco.domain.paths import upload_path, uploads_path
from roboco.errors import TransientError
from roboco.ports.workspace import Files
from roboco.workspace.artifacts.store import NewArtifact, read_artifact, write_artifact
from roboco.workspace.artifacts.stored_stream import MAX_UPLOAD_SECONDS, store_stream
from roboco.workspace.folder import FolderFiles
from roboco.workspace.s3 import S3Files

PIECE = bytes(range(256)) * 4096
"""A megabyte."""


class Stream(io.RawIOBase):
    """A source that cannot seek. It fails after its pieces, if `error` is set."""

    def __init__(self, pieces: Iterator[bytes], error: Exception | None = None) -> None:
        super().__init__()
        self._pieces = pieces
        self._held = b""
        self._error = error
        self.largest_read = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self.largest_read = max(self.largest_read, size)
        while size < 0 or len(self._held) < size:
            piece = next(self._pieces, None)
            if piece is None:
                if self._error is not None:
                    raise self._error
                break
            self._held += piece
        end = len(self._held) if size < 0 else size
        data, self._held = self._held[:end], self._held[end:]
        return data


def store(files: Files, name: str, source: io.RawIOBase) -> str:
    """Store the stream with task t, and return the name of its artifact."""
    return store_stream(files, "t", NewArtifact(name), cast(BinaryIO, source)).name


@pytest.mark.parametrize("size", [0, 5, 20])
def test_a_stream_of_some_megabytes_is_stored_whole(files: Files, size: int) -> None:
    source = Stream(iter([PIECE] * size + [b"end"]))
    artifact = store_stream(files, "t", NewArtifact("a.bin"), cast(BinaryIO, source))
    whole = PIECE * size + b"end"
    assert (artifact.size, artifact.sha256) == (len(whole), hashlib.sha256(whole).hexdigest())
    assert read_artifact(files, "t", "a.bin") == whole
    assert files.names(uploads_path("t")) == []
    assert source.largest_read <= 8 * 1024 * 1024


@pytest.mark.parametrize("size", [0, 5, 20])
def test_a_stream_that_fails_leaves_nothing(files: Files, size: int) -> None:
    source = Stream(iter([PIECE] * size), ConnectionError("gone"))
    with pytest.raises(Exception, match="gone"):
        store(files, "a.bin", source)
    assert [files.names(folder) for folder in ("t/uploads/", "t/artifacts/", "t/artifact_info/")] == [[], [], []]
    if isinstance(files, FolderFiles):
        assert [path for path in files.path_of("t").rglob("*") if path.is_file()] == []
    if isinstance(files, S3Files):
        client, bucket = files._objects._client, files._objects._bucket
        parts = client.list_multipart_uploads(Bucket=bucket, Prefix=files._objects._key("t/")).get("Uploads", [])
        assert parts == []


def test_a_store_that_fails_after_the_upload_keeps_no_upload(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise TransientError("silent")

    monkeypatch.setattr(files, "copy", fail)
    with pytest.raises(TransientError):
        store(files, "a.bin", Stream(iter([PIECE])))
    assert files.names(uploads_path("t")) == []
    monkeypatch.undo()
    assert store(files, "a.bin", Stream(iter([PIECE]))) == "a.bin"
    assert read_artifact(files, "t", "a.bin") == PIECE


def test_a_repeated_stream_is_the_same_artifact_and_another_one_a_version(files: Files) -> None:
    assert write_artifact(files, "t", NewArtifact("a.txt"), b"one").name == "a.txt"
    assert store(files, "a.txt", Stream(iter([b"o", b"ne"]))) == "a.txt"
    assert store(files, "a.txt", Stream(iter([b"two"]))) == "a-2.txt"
    assert store(files, "a.txt", Stream(iter([b"two"]))) == "a-2.txt"
    assert read_artifact(files, "t", "a-2.txt") == b"two"


def test_abandoned_uploads_are_removed_by_the_next_stream(files: Files) -> None:
    old, new = (upload_path("t", f"{int(time.time() - age)}-x") for age in (MAX_UPLOAD_SECONDS + 60, 60))
    for path in (old, new):
        files.put(path, b"rest")
    store(files, "a.txt", Stream(iter([b"one"])))
    assert (files.get(old), files.get(new)) == (None, b"rest")

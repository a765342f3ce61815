"""Files of the workspace: in a folder, in S3 and in memory."""

import io
import os
import stat
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from roboco.errors import TransientError
from roboco.local.seaweed import S3Server
from roboco.ports.workspace import Files
from roboco.workspace import lock
from roboco.workspace.folder import FolderFiles
from roboco.workspace.lock import locked
from roboco.workspace.s3 import MAX_TRIES, S3Files, S3Objects, connect_s3
from roboco.workspace.s3_history import S3Histories
from tests.contract.samples import TASK, make_chain
from tests.support.memory_ports.objects import MemoryObjects
from tests.support.stack import s3_environment

WRITER_COUNT = 8
ROUND_COUNT = 5
OUTSIDE_PATHS = ["/etc/x", "..", "../x", "a/..", "a/../../x", "a/../b"]


def test_a_tree_has_the_files_at_any_depth(files: Files) -> None:
    paths = ["t/a.json", "t/a/b/c", "t/a/b/d", "t/z"]
    for path in [*paths, "t2/a", "s/a"]:
        files.put(path, path.encode())
    assert sorted(file.path for file in files.tree("t/")) == paths
    assert {file.size for file in files.tree("t/")} == {8, 7, 3}
    assert list(files.tree("none/")) == []


def test_a_tree_is_removed_in_pages_and_others_stay(files: Files) -> None:
    for path in ("t/a", "t/b/c/d", "t/b/c/e", "t2/a"):
        files.put(path, b"x")
    assert files.create("t/v", b"one")
    version = files.get_versioned("t/v")
    assert version is not None
    assert files.replace("t/v", b"two", version.version)
    removed = 0
    while count := files.delete_tree("t/", 2):
        removed += count
    assert removed >= 4, "a folder holds a lock, too"
    assert list(files.tree("t/")) == []
    assert [file.path for file in files.tree("")] == ["t2/a"]
    assert files.delete_tree("none/", 2) == 0


def test_names_are_those_directly_below(files: Files) -> None:
    for path in ("t2/x", "t1/b", "t1/a/deep/er", "t1/ab", "t10/x", "top"):
        files.put(path, b"1")
    assert files.names("") == ["t1", "t10", "t2", "top"]
    assert files.names("t1/") == ["a", "ab", "b"]
    assert files.names("t1/a/") == ["deep"]
    assert files.names("t/") == []
    assert files.names("nowhere/") == []


def test_names_of_files_are_read_in_pages(files: Files) -> None:
    names = sorted(["task", "task-1", "task.1", "task1", "ä", "A", "~"])
    for name in names:
        files.put(f"_open/{name}", b"")
    for path in ("_open/folder/below", "_opened/other"):
        files.put(path, b"1")
    for limit in (1, 2, 3, 7, 100):
        found = list[str]()
        while page := files.names_after("_open/", found[-1] if found else "", limit):
            assert len(page) <= limit
            found += page
        assert found == names
    assert files.names_after("nowhere/", "", 5) == []


def test_folders_are_listed_in_pages(files: Files) -> None:
    """A name may begin with another one. Stores differ in the order of such names."""
    names = ["a", "a-1", "a.b", "a0", "acme:a", "b", "b-", "task_1", "task_10", "task_2", "z"]
    for name in names:
        files.put(f"{name}/task.json", b"")
        files.put(f"{name}/inbox/item.json", b"")
    files.put("file.json", b"")
    for size in (1, 2, 3, 100):
        found, cursor, is_last = list[str](), "", False
        while not is_last:
            page = files.folders(cursor, size)
            assert page is not None
            assert len(page.names) <= size
            found += page.names
            cursor, is_last = page.cursor, not page.cursor
        assert sorted(found) == names


@pytest.mark.parametrize("size", [0, 1, 70_000, 20 * 1024 * 1024], ids=["empty", "a byte", "some", "several parts"])
def test_files_of_any_size_are_stored_and_read_by_range(files: Files, size: int) -> None:
    data = (bytes(range(256)) * (size // 256 + 1))[:size]
    files.put_from("t/artifacts/a", io.BytesIO(data))
    assert files.size("t/artifacts/a") == size
    assert files.get("t/artifacts/a") == data
    for start, length in ((0, 10), (max(0, size - 3), 10), (size // 2, 4096), (size, 5), (size + 9, 5)):
        assert files.read("t/artifacts/a", start, length) == data[start : start + length]
    files.copy("t/artifacts/a", "u/artifacts/b")
    assert files.get("u/artifacts/b") == data
    files.put_from("t/artifacts/a", io.BytesIO(b"other"))
    assert files.get("t/artifacts/a") == b"other"


@pytest.mark.s3
def test_a_presigned_url_needs_no_credentials(objects: S3Objects) -> None:
    S3Files(objects).put("t/artifacts/a", b"hello")
    url = S3Files(objects).presigned_url("t/artifacts/a", 60)
    assert url is not None
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"hello"
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(url.partition("?")[0])


@pytest.mark.parametrize("name", ["a b", "ü+漢", "50%41&=", "#?", "x" * 128, "a..b", "-_.~!*'()"])
def test_names_may_contain_any_character(files: Files, name: str) -> None:
    assert files.create(f"f/{name}", name.encode())
    assert files.names("f/") == [name]
    assert files.get(f"f/{name}") == name.encode()
    files.delete(f"f/{name}")
    assert files.names("f/") == []


@pytest.mark.parametrize("files", ["folder", pytest.param("s3", marks=pytest.mark.s3)], indirect=True)
def test_paths_do_not_leave_the_workspace(files: Files) -> None:
    uses: list[Callable[[str], object]] = [
        lambda path: files.create(path, b"1"),
        lambda path: files.put(path, b"1"),
        files.get,
        files.delete,
        files.names,
    ]
    for path in OUTSIDE_PATHS:
        for use in uses:
            with pytest.raises(ValueError, match="leaves the workspace"):
                use(path)
    assert files.names("") == []


def test_a_file_is_replaced_only_at_its_version(files: Files) -> None:
    assert files.get_versioned("t/derived") is None
    assert not files.replace("t/derived", b"0", "no version"), "there is no file yet"
    assert files.names("") == []
    assert files.replace("t/derived", b"1", None)
    assert not files.replace("t/derived", b"2", None), "there is a file"
    first = files.get_versioned("t/derived")
    assert first is not None
    assert first.data == b"1"
    assert files.replace("t/derived", b"2", first.version)
    assert files.replace("t/derived", b"2", first.version), "the first reply was lost"
    assert files.replace("t/derived", b"2", None), "the first reply was lost"
    assert not files.replace("t/derived", b"3", first.version)
    assert files.get("t/derived") == b"2"
    second = files.get_versioned("t/derived")
    assert second is not None
    assert second.version != first.version
    files.delete("t/derived")
    assert not files.replace("t/derived", b"3", second.version), "it was removed"
    assert files.names("t/") == []
    assert files.replace("t/derived", b"", None)
    assert files.names("t/") == ["derived"]


def test_one_of_many_replacers_wins_each_round(files: Files) -> None:
    """All writers read the same version. The bytes of each round differ from those of every other round."""
    barrier = threading.Barrier(WRITER_COUNT, timeout=60)

    def replace(number: int) -> list[bool]:
        won: list[bool] = []
        for round_ in range(ROUND_COUNT):
            barrier.wait()
            stored = files.get_versioned("t/contested")
            version = None if stored is None else stored.version
            barrier.wait()
            won.append(files.replace("t/contested", b"%d of %d" % (round_, number), version))
        return won

    with ThreadPoolExecutor(WRITER_COUNT) as pool:
        rounds = list(zip(*pool.map(replace, range(WRITER_COUNT)), strict=True))
    assert [won.count(True) for won in rounds] == [1] * ROUND_COUNT
    assert files.get("t/contested") == b"%d of %d" % (ROUND_COUNT - 1, rounds[-1].index(True))
    assert files.names("t/") == ["contested"]


def test_a_lock_of_a_stopped_process_blocks_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = FolderFiles(tmp_path)
    names = [f"t/task{number}" for number in range(20)]
    for name in names:
        assert files.replace(name, b"1", None)
    stored = files.get_versioned(names[0])
    assert stored is not None
    assert files.replace(names[0], b"2", stored.version)
    (held,) = (tmp_path / "t").glob(".lock-*")
    monkeypatch.setattr(lock, "LOCK_TIMEOUT", 0.02)
    blocked = []
    with locked(held):
        for name in names[1:]:
            try:
                assert files.replace(name, b"2", stored.version)
            except TransientError:
                blocked.append(name)
        with pytest.raises(TransientError, match="locked by another process"):
            files.replace(names[0], b"1", files.get_versioned(names[0]).version)  # type: ignore[union-attr]
    assert len(blocked) < 5
    for name in blocked:
        assert files.replace(name, b"2", stored.version)


class SmallPagesClient:
    """An S3 client that lists names in pages of two, as S3 lists more than a thousand names in pages."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, **arguments: Any) -> Any:
        pages = self._client.get_paginator("list_objects_v2")
        return pages.paginate(**arguments, PaginationConfig={"PageSize": 2})


@pytest.mark.s3
def test_s3_lists_in_pages(s3: S3Server, s3_client: Any, prefix: str) -> None:
    objects = S3Objects(s3_client, s3.bucket, prefix)
    wanted = [f"task-{number}" for number in range(9)]
    for name in wanted:
        objects.put(f"_open/{name}", b"")
        objects.put(f"{name}/team.json", b"{}")
    paged = S3Files(S3Objects(SmallPagesClient(s3_client), s3.bucket, prefix))
    assert paged.names("_open/") == wanted
    assert paged.names("") == ["_open", *wanted]


@pytest.mark.s3
def test_another_prefix_is_another_workspace(s3: S3Server, s3_client: Any, prefix: str) -> None:
    one, other = (S3Files(S3Objects(s3_client, s3.bucket, f"/{prefix}/{name}/")) for name in ("w", "w2"))
    one.put("a", b"1")
    assert (other.get("a"), other.names("")) == (None, [])
    assert S3Files(S3Objects(s3_client, s3.bucket, prefix)).get("w/a") == b"1"


@pytest.mark.s3
def test_wrong_credentials_are_reported_without_the_secret(s3: S3Server) -> None:
    with s3_environment(s3), pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "a wrong secret")
        client = connect_s3(s3.endpoint_url)
    try:
        with pytest.raises(TransientError, match=r"SignatureDoesNotMatch.*AWS_SECRET_ACCESS_KEY") as refused:
            S3Files(S3Objects(client, s3.bucket)).get("a")
    finally:
        client.close()
    assert "a wrong secret" not in str(refused.value)


class ContestedObjects(MemoryObjects):
    """A store in which another worker writes and removes each object at the same moment."""

    def put(self, path: str, data: bytes, if_none: bool = False, if_match: str | None = None, **extra: Any) -> bool:
        self.written[path] += 1
        return False


def test_a_file_that_can_neither_be_created_nor_read_raises_a_transient_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    objects = ContestedObjects()
    with pytest.raises(TransientError, match=r"'t/a'.*try again later"):
        S3Files(objects).create("t/a", b"1")
    assert objects.written["t/a"] == MAX_TRIES == len(pauses) + 1
    assert min(pauses) > 0
    with pytest.raises(TransientError, match="step 0"):
        S3Histories(objects).append(TASK, make_chain(1)[0])
    assert len(pauses) == 2 * (MAX_TRIES - 1)


# --- only in a folder: names that are durable later


def test_a_write_that_need_not_be_durable_leaves_its_name_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync of a folder makes all of its names durable. The content of a file is durable before it has its name."""
    files, synced = FolderFiles(tmp_path), list[str]()
    original = os.fsync

    def fsync(handle: int) -> None:
        synced.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "content")
        original(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    assert files.create("a/b", b"one", durable=False)
    assert files.replace("a/b", b"two", versioned(files, "a/b"), durable=False)
    assert files.replace("a/b", b"two", "another", durable=False)
    assert synced == ["content", "content"]
    assert files.create("a/c", b"one")
    assert files.replace("a/c", b"two", versioned(files, "a/c"))
    assert files.replace("a/c", b"two", "another")
    assert synced[2:] == ["content", "folder", "content", "folder", "folder"]
    synced.clear()
    assert files.create("a/marker", b"")
    assert synced == ["folder"], "an empty file has no content"
    assert [files.get(f"a/{name}") for name in ("b", "c", "marker")] == [b"two", b"two", b""]


def versioned(files: Files, path: str) -> str:
    """Return the version of a file that exists."""
    found = files.get_versioned(path)
    assert found is not None
    return found.version

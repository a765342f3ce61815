"""Histories of tasks: in a folder, in S3 and in memory."""

import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.history.step import TaskStep
from roboco.domain.paths import history_path
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.histories import Histories
from roboco.workspace import folder_history, lock
from roboco.workspace.folder import FolderFiles
from roboco.workspace.folder_history import FolderHistories
from tests.contract.samples import TASK, make_chain, step_after
from tests.contract.workspace.history_checks import append_steps, assert_history
from tests.support.stack import until

POSITION_COUNT = 15
HISTORY = history_path(TASK)


@pytest.mark.parametrize(("writers", "in_step"), [(8, False), (2, True)])
def test_each_position_has_one_winner(
    histories: Histories, writers: int, in_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writers write as fast as they can, or start together at each position."""
    monkeypatch.setattr(lock, "LOCK_TIMEOUT", 60)
    barrier = threading.Barrier(writers, timeout=60)

    def write(writer: int) -> list[TaskStep]:
        seen: list[TaskStep] = []
        for seq in range(POSITION_COUNT):
            if in_step or not seq:
                barrier.wait()
            seen.append(histories.append(TASK, step_after(seen, f"writer {writer}")))
        return seen

    with ThreadPoolExecutor(writers) as pool:
        seen = list(pool.map(write, range(writers)))
    assert all(one == seen[0] for one in seen)
    assert [step.seq for step in seen[0]] == list(range(POSITION_COUNT))
    assert_history(histories, seen[0])


class Writer:
    """A thread that writes a history; its first `committed` steps are stored."""

    def __init__(self, histories: Histories) -> None:
        self.steps = make_chain(20)
        self.committed = 0
        self.done = threading.Event()
        self._histories = histories

    def write(self) -> None:
        """Write all steps."""
        try:
            for step in self.steps:
                self._histories.append(TASK, step)
                self.committed = step.seq + 1
        finally:
            self.done.set()

    def compact(self) -> None:
        """Compact until the writer is done."""
        while not self.done.is_set():
            self._histories.compact(TASK)

    def read(self) -> None:
        """Read until the writer is done. Check that each read returns all steps that were committed before it."""
        for back in itertools.cycle((0, 1, 3, 100)):
            finished, before = self.done.is_set(), self.committed
            start = max(0, before - back)
            found = list(self._histories.read(TASK, start))
            assert found == self.steps[start : start + len(found)]
            assert len(found) >= before - start
            if finished:
                return


def test_readers_see_every_step_once_during_writes_and_compactions(histories: Histories) -> None:
    """Two workers compact the history, and three read it."""
    writer = Writer(histories)
    with ThreadPoolExecutor(6) as pool:
        work = (writer.write, *[writer.compact] * 2, *[writer.read] * 3)
        for task in [pool.submit(one) for one in work]:
            task.result()
    assert_history(histories, writer.steps)
    histories.compact(TASK)
    assert_history(histories, writer.steps)


# --- only in a folder


@pytest.fixture
def folder(tmp_path: Path) -> FolderHistories:
    return FolderHistories(FolderFiles(tmp_path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / HISTORY


@pytest.mark.parametrize("size", [1, 100, 70_000, None], ids=str)
def test_a_torn_last_line_is_no_step(folder: FolderHistories, path: Path, size: int | None) -> None:
    """The writer was killed during its write. With size None, only the newline is missing."""
    steps = append_steps(folder, 3)
    torn = step_after(steps, "t" * 100_000).line().encode()[:size]
    with path.open("ab") as file:
        file.write(torn)
    assert_history(folder, steps)
    steps.append(step_after(steps))
    assert folder.append(TASK, steps[-1]) == steps[-1]
    assert_history(folder, steps)
    assert path.read_bytes() == b"".join(step.line().encode() + b"\n" for step in steps)


def test_a_reader_never_mixes_a_torn_line_with_its_replacement(folder: FolderHistories, path: Path) -> None:
    steps = append_steps(folder, 2)
    with path.open("ab") as file:
        file.write(step_after(steps, agent="critic").line().encode()[:60])
    reading = folder.read(TASK)
    found = [next(reading)]
    steps.append(step_after(steps, agent="writer"))
    folder.append(TASK, steps[-1])
    found += reading
    assert found in (steps[:2], steps)


def test_a_lock_that_is_never_released_blocks_only_its_task(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock may belong to a process that was stopped during a write."""
    monkeypatch.setattr(lock, "LOCK_TIMEOUT", 0.05)
    steps = append_steps(folder, 2)
    steps.append(step_after(steps))
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(TransientError, match="locked by another process"):
            folder.append(TASK, steps[-1])
        with pytest.raises(TransientError, match="locked by another process"):
            folder.create(TASK, [])
        assert folder.append("task_other", make_chain(1)[0]) == make_chain(1)[0]
        assert_history(folder, steps[:2])
    assert folder.append(TASK, steps[-1]) == steps[-1]
    assert_history(folder, steps)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_of_the_same_size_is_read_again(folder: FolderHistories, path: Path, in_place: bool) -> None:
    steps = append_steps(folder, 3)
    before = path.stat()

    def clock_ticks() -> bool:
        path.touch()
        return path.stat().st_ctime_ns > before.st_ctime_ns

    broken = path.read_bytes()[:-5] + b"####\n"
    if in_place:
        path.write_bytes(broken)
        until(clock_ticks, 10, "the kernel's clock ticks")
    else:
        path.with_suffix(".new").write_bytes(broken)
        path.with_suffix(".new").replace(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(CorruptHistory):
        folder.append(TASK, step_after(steps))


def test_a_failed_write_is_taken_back(folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = append_steps(folder, 2)
    before, write, sizes = path.read_bytes(), os.write, iter([10])

    def fill_disk(descriptor: int, data: bytes) -> int:
        if size := next(sizes, 0):
            return write(descriptor, bytes(data[:size]))
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fill_disk)
        with pytest.raises(TransientError, match="make room"):
            folder.append(TASK, step_after(steps))
    assert path.read_bytes() == before


def test_appends_leave_no_descriptor_open(folder: FolderHistories, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed, do_open, do_close = list[int](), list[int](), os.open, os.close

    def noting_open(*arguments: Any, **options: Any) -> int:
        opened.append(do_open(*arguments, **options))
        return opened[-1]

    def noting_close(descriptor: int) -> None:
        closed.append(descriptor)
        do_close(descriptor)

    monkeypatch.setattr(os, "open", noting_open)
    monkeypatch.setattr(os, "close", noting_close)
    steps = append_steps(folder, 2)
    assert folder.append(TASK, steps[0]) == steps[0]
    assert closed == opened
    assert len(opened) == 3


@pytest.mark.parametrize("block", [10, 64 * 1024])
def test_a_reader_survives_that_a_torn_line_is_taken_back(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """A writer removes it after the reader has asked for the size of the file."""
    monkeypatch.setattr(folder_history, "_BLOCK_BYTES", block)
    steps = append_steps(folder, 2)
    end, fstat = path.stat().st_size, os.fstat

    def taking_back(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        os.truncate(path, end)
        return found

    monkeypatch.setattr(os, "fstat", taking_back)
    lines = [step.line().encode() for step in steps]
    for read, wanted in ((folder.lines, lines), (lambda task_id: folder.read(task_id, 1), steps[1:])):
        with path.open("ab") as file:
            file.write(b'{"torn": ')
        assert list(itertools.islice(read(TASK), 10)) == wanted


def test_a_long_torn_line_is_read_once(folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power failure can leave megabytes of zeros."""
    monkeypatch.setattr(folder_history, "_BLOCK_BYTES", 1024)
    (step,) = append_steps(folder, 1)
    zeros = 1_000_000
    os.truncate(path, path.stat().st_size + zeros)
    pread, read, searched = os.pread, list[int](), list[int]()

    class Block(bytes):
        def rfind(self, *arguments: Any) -> int:
            searched.append(len(self))
            return super().rfind(*arguments)

    def noting(descriptor: int, length: int, at: int) -> bytes:
        read.append(length)
        return pread(descriptor, length, at)

    monkeypatch.setattr(os, "pread", noting)
    read_at = folder_history._read_at
    monkeypatch.setattr(folder_history, "_read_at", lambda *arguments: Block(read_at(*arguments)))
    assert list(folder.lines(TASK)) == [step.line().encode()]
    assert sum(read) < 1.1 * zeros
    assert max(searched) <= 1024


# --- only in a folder: a line that is visible, but not durable yet


@pytest.fixture
def synced_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the sizes of the file at each fsync."""
    sizes: list[int] = []
    original = os.fsync

    def fsync(handle: int) -> None:
        sizes.append(os.fstat(handle).st_size)
        original(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return sizes


def _write_without_fsync(path: Path) -> list[TaskStep]:
    """Write three steps, as a process that died before its fsync. Return them."""
    steps = make_chain(3)
    path.parent.mkdir()
    path.write_bytes(b"".join(step.line().encode() + b"\n" for step in steps))
    return steps


READS: list[Callable[[FolderHistories, list[TaskStep]], object]] = [
    lambda folder, steps: next(folder.read(TASK)),
    lambda folder, steps: next(iter(folder.read(TASK, 2))),
    lambda folder, steps: next(folder.lines(TASK)),
    lambda folder, steps: folder.append(TASK, step_after(steps[:2], "another")),
    lambda folder, steps: folder.create(TASK, [steps[0].line().encode()]),
]


@pytest.mark.parametrize("read", READS)
def test_a_reader_syncs_the_file_before_it_returns(
    folder: FolderHistories, path: Path, synced_sizes: list[int], read: Callable[..., object]
) -> None:
    steps = _write_without_fsync(path)
    assert read(folder, steps)
    assert synced_sizes == [path.stat().st_size]


def test_an_append_is_durable_when_it_returns(folder: FolderHistories, path: Path, synced_sizes: list[int]) -> None:
    append_steps(folder, 1)
    assert synced_sizes == [path.stat().st_size]


@pytest.mark.parametrize("refused", [errno.EROFS, errno.EINVAL])
def test_a_history_on_a_read_only_medium_is_read(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    steps = _write_without_fsync(path)

    def fsync(handle: int) -> None:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(os, "fsync", fsync)
    assert_history(folder, steps)


def test_a_history_without_the_right_to_write_is_read(folder: FolderHistories, path: Path) -> None:
    steps = _write_without_fsync(path)
    path.chmod(0o400)
    assert_history(folder, steps)

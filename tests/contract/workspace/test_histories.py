"""Histories of tasks: in a folder, in S3 and in memory."""

import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from roboco.domain import sorted_lines
from roboco.domain.history.step import TaskStep, parse_step, verify_chain
from roboco.domain.paths import history_path
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.workspace import Histories
from roboco.workspace import folder_history, lock
from roboco.workspace.folder import FolderFiles
from roboco.workspace.folder_history import FolderHistories
from tests.contract.samples import TASK, make_chain, step_after
from tests.contract.workspace.history_checks import append_steps, assert_history
from tests.support.forked_child import forked_child
from tests.support.stack import until

POSITION_COUNT = 30
HISTORY = history_path(TASK)


def test_a_history_starts_with_the_lines_of_another_one(histories: Histories) -> None:
    steps = append_steps(histories, 5)
    lines = list(histories.lines(TASK))
    for kept in (lines[:3], lines[:3], lines[:2]):
        assert histories.create("fork", kept), "the same lines again, and fewer lines"
    assert list(histories.read("fork")) == steps[:3]
    other = step_after(steps[:3], "another way")
    assert histories.append("fork", other) == other
    assert histories.create("fork", lines[:3]), "it has more steps, and starts with these lines"
    assert not histories.create("fork", lines[:4])
    assert list(histories.read("fork")) == [*steps[:3], other]
    histories.compact("fork")
    assert list(histories.read("fork")) == [*steps[:3], other]
    assert_history(histories, steps)


def test_each_task_has_its_own_history(histories: Histories) -> None:
    steps = append_steps(histories, 2)
    assert histories.append(f"{TASK}0", steps[0]) == steps[0]
    assert_history(histories, steps)


@pytest.mark.parametrize("compacted", [False, True])
def test_an_append_at_a_taken_position_returns_the_stored_step(histories: Histories, compacted: bool) -> None:
    steps = append_steps(histories, 4)
    if compacted:
        histories.compact(TASK)
    for seq, step in enumerate(steps):
        other = step_after(steps[:seq], "another worker's")
        assert other != step
        assert histories.append(TASK, other) == step
        assert histories.append(TASK, step) == step, "the first reply was lost"
    assert_history(histories, steps)


def test_a_long_step_is_stored_whole(histories: Histories) -> None:
    steps = make_chain(1)
    for letter in "abc":
        steps.append(step_after(steps, letter * 200_000 + "\n\u2028ü"))
    for step in steps:
        assert histories.append(TASK, step) == step
    assert_history(histories, steps)


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
        self.steps = make_chain(30)
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


def test_a_changed_line_is_corrupt(histories: Histories) -> None:
    append_steps(histories, 3)
    lines = list(histories.lines(TASK))
    with pytest.raises(CorruptHistory, match="step 1"):
        verify_chain([lines[0], lines[1].replace(b"step 1", b"step X"), lines[2]])


# --- only in a folder


@pytest.fixture
def folder(tmp_path: Path) -> FolderHistories:
    return FolderHistories(FolderFiles(tmp_path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / HISTORY


def test_a_position_beyond_the_end_is_refused(folder: FolderHistories) -> None:
    steps = make_chain(4)
    with pytest.raises(CorruptHistory, match=r"has 0 steps.*step 1 was to be added"):
        folder.append(TASK, steps[1])
    folder.append(TASK, steps[0])
    folder.append(TASK, steps[1])
    with pytest.raises(CorruptHistory, match=r"has 2 steps.*step 3 was to be added"):
        folder.append(TASK, steps[3])
    assert_history(folder, steps[:2])


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


def test_a_torn_first_line_is_no_step(folder: FolderHistories, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(make_chain(1)[0].line().encode())
    assert_history(folder, [])
    assert_history(folder, append_steps(folder, 2))


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


def test_a_process_that_is_forked_during_a_write_does_not_keep_the_lock(path: Path) -> None:
    """A coordinator replaces a process of its pool while its sweeper writes."""
    path.parent.mkdir(parents=True)
    with ExitStack() as exits:
        with lock.locked(path):
            exits.enter_context(forked_child())
        with path.open("rb") as other:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_two_processes_append_in_turn(folder: FolderHistories, path: Path) -> None:
    """None of them relies on the number of steps that it has seen before."""
    other, steps = FolderHistories(FolderFiles(path.parent.parent)), list[TaskStep]()
    for one in (folder, folder, other, other, folder, other, folder):
        steps.append(step_after(steps))
        assert one.append(TASK, steps[-1]) == steps[-1]
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


def test_a_history_that_loses_its_steps_meanwhile_is_tried_again(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The count of steps that this process has seen last is forgotten, however the file came to look the same."""
    steps = append_steps(folder, 3)
    line, *_ = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(line)
    with monkeypatch.context() as patch:
        patch.setattr(folder_history, "_version", lambda _: folder._durable[TASK].version)
        with pytest.raises(TransientError, match="was replaced"):
            folder.append(TASK, steps[1])
    assert folder.append(TASK, steps[1]) == steps[1]
    assert_history(folder, steps[:2])


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


def test_short_writes_and_reads_are_continued(folder: FolderHistories, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pread = os.write, os.pread
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:7])))
    monkeypatch.setattr(os, "pread", lambda descriptor, length, at: pread(descriptor, min(length, 11), at))
    steps = append_steps(folder, 3)
    assert_history(folder, steps)
    folder._durable.clear()
    steps.append(step_after(steps))
    assert folder.append(TASK, steps[-1]) == steps[-1]


def test_an_append_after_one_of_the_same_process_reads_nothing(
    folder: FolderHistories, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = append_steps(folder, 2)
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("the file is read"))
    assert folder.append(TASK, step_after(steps)) == step_after(steps)


def test_a_torn_first_line_is_replaced(folder: FolderHistories, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{"torn')
    steps = make_chain(2)
    assert folder.create(TASK, [step.line().encode() for step in steps])
    assert_history(folder, steps)


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


def test_a_reader_of_a_line_that_is_taken_back_ends(folder: FolderHistories, path: Path) -> None:
    """The fsync of its writer has failed after the reader had begun."""
    steps = append_steps(folder, 2)
    reading = folder.lines(TASK)
    assert next(reading) == steps[0].line().encode()
    os.truncate(path, len(steps[0].line().encode()) + 1)
    assert len(list(itertools.islice(reading, 10))) <= 1, "what was buffered"


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


def test_few_histories_are_remembered(folder: FolderHistories, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_history, "_MAX_REMEMBERED_HISTORIES", 2)
    for number in range(5):
        folder.append(f"task_{number}", make_chain(1)[0])
    assert len(folder._durable) <= 2


def test_a_malformed_line_is_corrupt(folder: FolderHistories, path: Path) -> None:
    steps = append_steps(folder, 2)
    with path.open("ab") as file:
        file.write(b"{not a step}\n")
    with pytest.raises(CorruptHistory, match="is not a step"):
        list(folder.read(TASK))
    with pytest.raises(CorruptHistory, match="is not a step"):
        folder.append(TASK, step_after(steps))


def test_a_reader_of_many_steps_reads_them_as_they_are_needed(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_history, "_MAX_BACKWARD", 3)
    monkeypatch.setattr(sorted_lines, "PIECE_BYTES", 1500)
    monkeypatch.setattr(sorted_lines, "PROBE_BYTES", 300)
    steps = append_steps(folder, 40)
    with path.open("ab") as file:
        file.write(b'{"torn": ')
    parsed: list[bytes] = []

    def counting_parse(line: bytes) -> TaskStep:
        parsed.append(line)
        return parse_step(line)

    for start in range(1, 42):
        assert list(folder.read(TASK, start)) == steps[start:]
    monkeypatch.setattr(folder_history, "parse_step", counting_parse)
    assert next(folder.read(TASK, 5)) == steps[5]
    assert len(parsed) < 20, "those of the search, and of a piece"


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


@pytest.mark.parametrize("read", READS)
def test_a_reader_that_cannot_sync_the_file_raises_a_transient_error(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[..., object]
) -> None:
    steps = _write_without_fsync(path)

    def fsync(handle: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with pytest.raises(TransientError, match=r"history .* cannot be .*the disk is broken"):
            read(folder, steps)


def test_an_append_is_durable_when_it_returns(folder: FolderHistories, path: Path, synced_sizes: list[int]) -> None:
    append_steps(folder, 1)
    assert synced_sizes == [path.stat().st_size]


def test_a_reader_syncs_each_state_of_a_file_once(folder: FolderHistories, path: Path, synced_sizes: list[int]) -> None:
    steps = _write_without_fsync(path)
    for _ in range(3):
        assert_history(folder, steps)
    assert len(synced_sizes) == 1
    steps.append(step_after(steps))
    FolderHistories(FolderFiles(path.parent.parent)).append(TASK, steps[-1])
    synced_sizes.clear()
    for _ in range(3):
        assert_history(folder, steps)
    assert synced_sizes == [path.stat().st_size]
    steps.append(step_after(steps))
    folder.append(TASK, steps[-1])
    synced_sizes.clear()
    assert_history(folder, steps)
    assert synced_sizes == [], "the writer has synced it"


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

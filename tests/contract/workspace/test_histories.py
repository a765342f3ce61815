"""Histories of tasks: in a folder and in S3."""

import errno
import fcntl
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roboco.adapters.workspace import lock
from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.folder_history import FolderHistories
from roboco.domain.history.step import TaskStep, verify_chain
from roboco.domain.paths import history_path
from roboco.errors import CorruptHistory, TransientError
from roboco.ports.workspace import Histories
from tests.contract.samples import TASK, make_chain, step_after
from tests.contract.workspace.history_checks import append_steps, assert_history

POSITIONS = 30
HISTORY = history_path(TASK)


def test_an_unknown_task_has_no_steps(histories: Histories) -> None:
    assert histories.compact(TASK)
    assert_history(histories, [])


def test_steps_are_read_in_order(histories: Histories) -> None:
    steps = append_steps(histories, 6)
    assert_history(histories, steps)
    assert histories.compact(TASK)
    for start in range(8):
        assert list(histories.read(TASK, start)) == steps[start:]
    steps.append(step_after(steps))
    assert histories.append(TASK, steps[-1]) == steps[-1]
    assert_history(histories, steps)
    histories.compact(TASK)
    histories.compact(TASK)
    assert_history(histories, steps)


def test_a_history_starts_with_the_lines_of_another_one(histories: Histories) -> None:
    steps = append_steps(histories, 5)
    lines = list(histories.lines(TASK))
    for kept in (lines[:3], lines[:3], lines[:2]):
        assert histories.create("fork", kept), "the same again, and fewer of them"
    assert list(histories.read("fork")) == steps[:3]
    other = step_after(steps[:3], "another way")
    assert histories.append("fork", other) == other
    assert histories.create("fork", lines[:3]), "it goes on, and began so"
    assert not histories.create("fork", lines[:4])
    assert list(histories.read("fork")) == [*steps[:3], other]
    histories.compact("fork")
    assert list(histories.read("fork")) == [*steps[:3], other]
    assert_history(histories, steps)


def test_a_history_that_has_steps_is_not_created_again(histories: Histories) -> None:
    steps = append_steps(histories, 2)
    assert not histories.create(TASK, [step_after([], "another first one").line().encode()])
    assert_history(histories, steps)


def test_each_task_has_its_own_history(histories: Histories) -> None:
    steps = append_steps(histories, 2)
    assert histories.append(f"{TASK}0", steps[0]) == steps[0]
    assert_history(histories, steps)


@pytest.mark.parametrize("folded", [False, True])
def test_an_append_at_a_taken_position_returns_the_stored_step(histories: Histories, folded: bool) -> None:
    steps = append_steps(histories, 4)
    if folded:
        histories.compact(TASK)
    for seq, step in enumerate(steps):
        other = step_after(steps[:seq], "another worker's")
        assert other != step
        assert histories.append(TASK, other) == step
        assert histories.append(TASK, step) == step, "our own answer was lost"
    assert_history(histories, steps)


def test_a_long_step_is_stored_whole(histories: Histories) -> None:
    steps = make_chain(1)
    for letter in "abc":
        steps.append(step_after(steps, letter * 200_000 + "\n\u2028ü"))
    for step in steps:
        assert histories.append(TASK, step) == step
    assert_history(histories, steps)


@pytest.mark.parametrize(("writers", "abreast"), [(8, False), (2, True)])
def test_each_position_has_one_winner(
    histories: Histories, writers: int, abreast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each writer writes as fast as it can, or all begin each position together."""
    monkeypatch.setattr(lock, "LOCK_TIMEOUT", 60)
    together = threading.Barrier(writers, timeout=60)

    def write(writer: int) -> list[TaskStep]:
        seen: list[TaskStep] = []
        for seq in range(POSITIONS):
            if abreast or not seq:
                together.wait()
            seen.append(histories.append(TASK, step_after(seen, f"writer {writer}")))
        return seen

    with ThreadPoolExecutor(writers) as pool:
        seen = list(pool.map(write, range(writers)))
    assert all(one == seen[0] for one in seen)
    assert [step.seq for step in seen[0]] == list(range(POSITIONS))
    assert_history(histories, seen[0])


class Writer:
    """Writes a history in a thread of its own; `committed` steps of it stand for sure."""

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

    def fold(self) -> None:
        """Fold all the time."""
        while not self.done.is_set():
            self._histories.compact(TASK)

    def read(self) -> None:
        """Read all the time: what is read is exact, and holds at least what was committed before."""
        for back in itertools.cycle((0, 1, 3, 100)):
            over, before = self.done.is_set(), self.committed
            start = max(0, before - back)
            found = list(self._histories.read(TASK, start))
            assert found == self.steps[start : start + len(found)]
            assert len(found) >= before - start
            if over:
                return


def test_readers_see_every_step_once_during_writes_and_compactions(histories: Histories) -> None:
    """Two workers fold, three read."""
    writer = Writer(histories)
    with ThreadPoolExecutor(6) as pool:
        work = (writer.write, *[writer.fold] * 2, *[writer.read] * 3)
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


# --- in a folder


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
    """Killed in mid-write; with size None all but the newline was written."""
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
    """As that of a process which is stopped in the middle of a write."""
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


def test_a_malformed_line_is_corrupt(folder: FolderHistories, path: Path) -> None:
    steps = append_steps(folder, 2)
    with path.open("ab") as file:
        file.write(b"{not a step}\n")
    with pytest.raises(CorruptHistory, match="is not a step"):
        list(folder.read(TASK))
    with pytest.raises(CorruptHistory, match="is not a step"):
        folder.append(TASK, step_after(steps))


# --- in a folder: a line that is visible, but not durable yet


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The size of the file at each fsync."""
    sizes: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        sizes.append(os.fstat(handle).st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return sizes


def _left_by_a_dead_writer(path: Path) -> list[TaskStep]:
    """Three steps, written by a process that died before its fsync."""
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
    folder: FolderHistories, path: Path, synced: list[int], read: Callable[..., object]
) -> None:
    steps = _left_by_a_dead_writer(path)
    assert read(folder, steps)
    assert synced == [path.stat().st_size]


@pytest.mark.parametrize("read", READS)
def test_a_reader_that_cannot_sync_the_file_raises_a_transient_error(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[..., object]
) -> None:
    steps = _left_by_a_dead_writer(path)

    def fsync(handle: int) -> None:
        raise OSError(errno.EIO, "the disk is broken")

    monkeypatch.setattr(os, "fsync", fsync)
    for _ in range(2):
        with pytest.raises(TransientError, match=r"history .* cannot be .*the disk is broken"):
            read(folder, steps)


def test_a_reader_syncs_each_state_of_a_file_once(folder: FolderHistories, path: Path, synced: list[int]) -> None:
    steps = _left_by_a_dead_writer(path)
    for _ in range(3):
        assert_history(folder, steps)
    assert len(synced) == 1
    steps.append(step_after(steps))
    FolderHistories(FolderFiles(path.parent.parent)).append(TASK, steps[-1])
    synced.clear()
    for _ in range(3):
        assert_history(folder, steps)
    assert synced == [path.stat().st_size]
    steps.append(step_after(steps))
    folder.append(TASK, steps[-1])
    synced.clear()
    assert_history(folder, steps)
    assert synced == [], "its writer did so"


@pytest.mark.parametrize("refused", [errno.EROFS, errno.EINVAL])
def test_a_history_on_a_read_only_medium_is_read(
    folder: FolderHistories, path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    steps = _left_by_a_dead_writer(path)

    def fsync(handle: int) -> None:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr(os, "fsync", fsync)
    assert_history(folder, steps)


def test_a_history_without_the_right_to_write_is_read(folder: FolderHistories, path: Path) -> None:
    steps = _left_by_a_dead_writer(path)
    path.chmod(0o400)
    assert_history(folder, steps)

"""Histories of tasks: in a folder and in S3."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from roboco.adapters.local.seaweed import S3Server
from roboco.adapters.workspace.folder import FolderFiles
from roboco.adapters.workspace.folder_history import FolderHistories
from roboco.adapters.workspace.s3 import S3Objects
from roboco.adapters.workspace.s3_history import S3Histories
from roboco.domain.paths import history_path, segments_path
from roboco.domain.step import TaskStep, verify_chain
from roboco.errors import CorruptHistory
from roboco.ports import Histories
from tests.contract.s3_watched import Killed, WatchedObjects
from tests.contract.samples import TASK, chain, step_after
from tests.contract.test_files import AnswerLost

POSITIONS = 30
SEGMENTS = segments_path(TASK)
HISTORY = history_path(TASK)


def written(histories: Histories, count: int) -> list[TaskStep]:
    """So many steps, stored."""
    steps = chain(count)
    for step in steps:
        assert histories.append(TASK, step) == step
    return steps


def assert_holds(histories: Histories, steps: list[TaskStep]) -> None:
    """Read from any start, and line by line, the history is these steps."""
    for start in sorted({0, len(steps) // 2, max(0, len(steps) - 1), len(steps)}):
        assert list(histories.read(TASK, start)) == steps[start:]
    lines = list(histories.lines(TASK))
    assert lines == [step.line().encode() for step in steps]
    assert verify_chain(lines) == len(steps)


def test_an_unknown_task_has_no_steps(histories: Histories) -> None:
    histories.fold(TASK)
    assert_holds(histories, [])


def test_steps_stand_in_order(histories: Histories) -> None:
    steps = written(histories, 6)
    assert_holds(histories, steps)
    histories.fold(TASK)
    for start in range(8):
        assert list(histories.read(TASK, start)) == steps[start:]
    steps.append(step_after(steps))
    assert histories.append(TASK, steps[-1]) == steps[-1]
    assert_holds(histories, steps)
    histories.fold(TASK)
    histories.fold(TASK)
    assert_holds(histories, steps)


def test_tasks_stand_apart(histories: Histories) -> None:
    steps = written(histories, 2)
    assert histories.append(f"{TASK}0", steps[0]) == steps[0]
    assert_holds(histories, steps)


@pytest.mark.parametrize("folded", [False, True])
def test_a_taken_position_returns_what_stands_there(histories: Histories, folded: bool) -> None:
    steps = written(histories, 4)
    if folded:
        histories.fold(TASK)
    for seq, step in enumerate(steps):
        other = step_after(steps[:seq], "another worker's")
        assert other != step
        assert histories.append(TASK, other) == step
        assert histories.append(TASK, step) == step, "our own answer was lost"
    assert_holds(histories, steps)


def test_a_long_step_is_kept_whole(histories: Histories) -> None:
    steps = chain(1)
    for letter in "abc":
        steps.append(step_after(steps, letter * 200_000 + "\n\u2028ü"))
    for step in steps:
        assert histories.append(TASK, step) == step
    assert_holds(histories, steps)


@pytest.mark.parametrize(("writers", "abreast"), [(8, False), (2, True)])
def test_each_position_has_one_winner(histories: Histories, writers: int, abreast: bool) -> None:
    """Each writer writes as fast as it can, or all begin each position together."""
    together = threading.Barrier(writers)

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
    assert_holds(histories, seen[0])


class Writer:
    """Writes a history in a thread of its own; `committed` steps of it stand for sure."""

    def __init__(self, histories: Histories) -> None:
        self.steps = chain(30)
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
            self._histories.fold(TASK)

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


def test_readers_beside_a_writer_see_every_step_once(histories: Histories) -> None:
    """Two workers fold, three read."""
    writer = Writer(histories)
    with ThreadPoolExecutor(6) as pool:
        work = (writer.write, *[writer.fold] * 2, *[writer.read] * 3)
        for task in [pool.submit(one) for one in work]:
            task.result()
    assert_holds(histories, writer.steps)
    histories.fold(TASK)
    assert_holds(histories, writer.steps)


def test_a_changed_line_is_not_read(histories: Histories) -> None:
    written(histories, 3)
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
    steps = chain(4)
    with pytest.raises(CorruptHistory, match=r"has 0 steps.*step 1 was to be added"):
        folder.append(TASK, steps[1])
    folder.append(TASK, steps[0])
    folder.append(TASK, steps[1])
    with pytest.raises(CorruptHistory, match=r"has 2 steps.*step 3 was to be added"):
        folder.append(TASK, steps[3])
    assert_holds(folder, steps[:2])


@pytest.mark.parametrize("size", [1, 100, 70_000, None], ids=str)
def test_a_torn_last_line_is_no_step(folder: FolderHistories, path: Path, size: int | None) -> None:
    """Killed in mid-write; with size None all but the newline was written."""
    steps = written(folder, 3)
    torn = step_after(steps, "t" * 100_000).line().encode()[:size]
    with path.open("ab") as file:
        file.write(torn)
    assert_holds(folder, steps)
    steps.append(step_after(steps))
    assert folder.append(TASK, steps[-1]) == steps[-1]
    assert_holds(folder, steps)
    assert path.read_bytes() == b"".join(step.line().encode() + b"\n" for step in steps)


def test_a_torn_first_line_is_no_step(folder: FolderHistories, path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(chain(1)[0].line().encode())
    assert_holds(folder, [])
    assert_holds(folder, written(folder, 2))


def test_a_torn_line_that_is_replaced_under_a_reader_is_not_mixed(folder: FolderHistories, path: Path) -> None:
    steps = written(folder, 2)
    with path.open("ab") as file:
        file.write(step_after(steps, agent="critic").line().encode()[:60])
    reading = folder.read(TASK)
    found = [next(reading)]
    steps.append(step_after(steps, agent="writer"))
    folder.append(TASK, steps[-1])
    found += reading
    assert found in (steps[:2], steps)


class LateReader(FolderFiles):
    """Files of a reader that is overtaken: `meanwhile` runs when it has looked for the end of the history."""

    def __init__(self, root: Path, meanwhile: Iterator[object]) -> None:
        super().__init__(root)
        self._meanwhile = meanwhile

    def at(self, path: str) -> Path:
        """The place, as a path whose files can be overtaken."""
        place = _LatePath(super().at(path))
        place.meanwhile = self._meanwhile
        return place


class _LatePath(type(Path())):  # type: ignore[misc]  # a path of this system, whose class has no name of its own
    meanwhile: Iterator[object]

    def open(self, *arguments: Any, **options: Any) -> Any:
        file = super().open(*arguments, **options)
        seek = file.seek

        def overtaken(*place: int) -> int:
            found: int = seek(*place)
            if place[1:]:
                next(self.meanwhile, None)
            return found

        return _Overtaken(file, overtaken)


class _Overtaken:
    def __init__(self, file: Any, seek: Any) -> None:
        self._file = file
        self.seek = seek

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> "_Overtaken":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@pytest.mark.parametrize("start", [1, 3, 4])
def test_a_reader_that_is_overtaken_begins_where_it_was_asked_to(
    folder: FolderHistories, tmp_path: Path, start: int
) -> None:
    steps = chain(8)
    for step in steps[:4]:
        folder.append(TASK, step)
    meanwhile = (folder.append(TASK, step) for step in steps[4:])
    found = list(FolderHistories(LateReader(tmp_path, meanwhile)).read(TASK, start))
    assert found == steps[start : start + len(found)]
    assert len(found) >= 4 - start


def test_a_broken_line_is_told(folder: FolderHistories, path: Path) -> None:
    steps = written(folder, 2)
    with path.open("ab") as file:
        file.write(b"{not a step}\n")
    with pytest.raises(CorruptHistory, match="is not a step"):
        list(folder.read(TASK))
    with pytest.raises(CorruptHistory, match="is not a step"):
        folder.append(TASK, step_after(steps))


# --- in S3


@pytest.fixture
def s3_histories(objects: WatchedObjects) -> S3Histories:
    return S3Histories(objects)


@pytest.mark.s3
def test_a_fold_leaves_one_file(s3_histories: S3Histories, objects: WatchedObjects) -> None:
    steps = written(s3_histories, 5)
    assert objects.names(SEGMENTS) == [f"0000000{seq}.json" for seq in range(5)]
    s3_histories.fold(TASK)
    stored = objects.get(HISTORY)
    assert stored is not None
    assert stored.data == b"".join(step.line().encode() + b"\n" for step in steps)
    assert objects.names(SEGMENTS) == []


@pytest.mark.s3
def test_a_lost_answer_is_success(s3: S3Server, s3_client: Any, prefix: str) -> None:
    histories = S3Histories(S3Objects(AnswerLost(s3_client), s3.bucket, prefix))
    steps = written(histories, 3)
    histories.fold(TASK)
    steps.append(step_after(steps))
    assert histories.append(TASK, steps[-1]) == steps[-1]
    assert_holds(histories, steps)


@pytest.mark.s3
@pytest.mark.parametrize("removed", [0, 2])
def test_a_fold_that_dies_while_it_removes(objects: WatchedObjects, s3_histories: S3Histories, removed: int) -> None:
    steps = written(s3_histories, 3)
    dying = objects.of_another_worker()
    dying.die_before("delete", removed + 1)
    with pytest.raises(Killed):
        S3Histories(dying).fold(TASK)
    assert objects.get(HISTORY) is not None
    assert len(objects.names(SEGMENTS)) == 3 - removed
    assert_holds(s3_histories, steps)
    assert s3_histories.append(TASK, step_after(steps[:2], "another")) == steps[2]
    steps.append(step_after(steps))
    assert s3_histories.append(TASK, steps[-1]) == steps[-1]
    assert_holds(s3_histories, steps)
    s3_histories.fold(TASK)
    assert objects.names(SEGMENTS) == []
    assert_holds(s3_histories, steps)


@pytest.mark.s3
@pytest.mark.parametrize("call", ["get", "names", "put"])
def test_a_fold_that_dies_before_it_wrote(objects: WatchedObjects, s3_histories: S3Histories, call: str) -> None:
    steps = written(s3_histories, 3)
    dying = objects.of_another_worker()
    dying.die_before(call)
    with pytest.raises(Killed):
        S3Histories(dying).fold(TASK)
    assert_holds(s3_histories, steps)


@pytest.mark.s3
@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("whole", [True, False])
def test_a_fold_beside_a_fold_and_an_append(
    objects: WatchedObjects, s3_histories: S3Histories, nth: int, whole: bool
) -> None:
    """Before the nth call of one fold another one runs (or dies before it removes), and a step is added."""
    steps = written(s3_histories, 3)
    slow = objects.of_another_worker()
    left = nth

    def meanwhile(name: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left:
            return
        quick = objects.of_another_worker()
        if not whole:
            quick.die_before("delete", 1)
        with suppress(Killed):
            S3Histories(quick).fold(TASK)
        steps.append(step_after(steps))
        assert s3_histories.append(TASK, steps[-1]) == steps[-1]

    slow.before = meanwhile
    S3Histories(slow).fold(TASK)
    assert list(s3_histories.read(TASK)) == steps
    s3_histories.fold(TASK)
    assert list(s3_histories.read(TASK)) == steps
    assert objects.names(SEGMENTS) == []


@pytest.mark.s3
def test_a_fold_that_finds_its_segments_gone_removes_nothing_else(
    objects: WatchedObjects, s3_histories: S3Histories
) -> None:
    """Another fold wrote before this one listed, and removes while this one reads; a step came in between."""
    steps = written(s3_histories, 4)
    slow, quick = objects.of_another_worker(), objects.of_another_worker()
    quick.die_before("delete")

    def meanwhile(name: str, path: str) -> None:
        if (name, path) == ("names", SEGMENTS):
            with pytest.raises(Killed):
                S3Histories(quick).fold(TASK)
            steps.append(step_after(steps))
            s3_histories.append(TASK, steps[-1])
        elif (name, path) == ("get", f"{SEGMENTS}00000000.json"):
            for seq in range(4):
                objects.delete(f"{SEGMENTS}{seq:08d}.json")

    slow.before = meanwhile
    S3Histories(slow).fold(TASK)
    assert_holds(s3_histories, steps)


@pytest.mark.s3
def test_a_late_writer_to_a_folded_position_loses(objects: WatchedObjects, s3_histories: S3Histories) -> None:
    steps = written(s3_histories, 4)
    s3_histories.fold(TASK)
    for seq in range(4):
        assert s3_histories.append(TASK, step_after(steps[:seq], "late")) == steps[seq]
    assert objects.names(SEGMENTS) == []
    assert_holds(s3_histories, steps)


@pytest.mark.s3
@pytest.mark.parametrize("seq", [0, 2])
def test_what_a_dead_late_writer_leaves_is_ignored(
    objects: WatchedObjects, s3_histories: S3Histories, seq: int
) -> None:
    steps = written(s3_histories, 3)
    s3_histories.fold(TASK)
    dying = objects.of_another_worker()
    dying.die_before("metadata")
    with pytest.raises(Killed):
        S3Histories(dying).append(TASK, step_after(steps[:seq], "late"))
    assert objects.names(SEGMENTS) == [f"0000000{seq}.json"]
    assert_holds(s3_histories, steps)
    assert s3_histories.append(TASK, step_after(steps[:seq], "later")) == steps[seq]
    steps.append(step_after(steps))
    assert s3_histories.append(TASK, steps[-1]) == steps[-1]
    assert_holds(s3_histories, steps)
    s3_histories.fold(TASK)
    assert_holds(s3_histories, steps)
    assert objects.names(SEGMENTS) == []


@pytest.mark.s3
@pytest.mark.parametrize("nth", range(1, 7))
@pytest.mark.parametrize("start", [0, 2])
def test_a_reader_beside_a_fold_and_an_append(
    objects: WatchedObjects, s3_histories: S3Histories, nth: int, start: int
) -> None:
    steps = written(s3_histories, 3)
    slow = objects.of_another_worker()
    left = nth

    def meanwhile(name: str, path: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            s3_histories.fold(TASK)
            steps.append(step_after(steps))
            s3_histories.append(TASK, steps[-1])

    slow.before = meanwhile
    found = list(S3Histories(slow).read(TASK, start))
    assert found == steps[start : start + len(found)]
    assert len(found) >= 3 - start


@pytest.mark.s3
@pytest.mark.parametrize("lost", [0, 2])
def test_a_lost_segment_is_told_and_never_folded_over(
    objects: WatchedObjects, s3_histories: S3Histories, lost: int
) -> None:
    steps = written(s3_histories, 4)
    objects.delete(f"{SEGMENTS}{lost:08d}.json")
    for _ in range(2):
        with pytest.raises(CorruptHistory, match=f"{TASK!r} lacks a step"):
            list(s3_histories.read(TASK))
        with suppress(CorruptHistory):
            s3_histories.fold(TASK)
    objects.put(f"{SEGMENTS}{lost:08d}.json", steps[lost].line().encode())
    assert_holds(s3_histories, steps)


@pytest.mark.s3
def test_cost_does_not_grow_with_the_history(objects: WatchedObjects, s3_histories: S3Histories) -> None:
    costs: list[tuple[int, int]] = []
    steps: list[TaskStep] = []
    for count in (2, 20):
        while len(steps) < count:
            steps.append(step_after(steps))
            s3_histories.append(TASK, steps[-1])
        s3_histories.fold(TASK)
        steps.append(step_after(steps))
        objects.calls.clear()
        s3_histories.append(TASK, steps[-1])
        appended = len(objects.calls)
        assert list(s3_histories.read(TASK, len(steps) - 1)) == steps[-1:]
        costs.append((appended, len(objects.calls) - appended))
    assert costs[0] == costs[1]
    assert max(costs[0]) <= 3

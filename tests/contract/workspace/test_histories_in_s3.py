"""Histories in S3: segments, and compaction beside every other operation."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from roboco.domain.history.step import TaskStep, parse_step
from roboco.domain.paths import history_path, segments_path
from roboco.errors import CorruptHistory
from roboco.workspace.s3_history import S3Histories
from tests.contract.samples import TASK, step_after
from tests.contract.workspace.history_checks import append_steps, assert_history
from tests.contract.workspace.s3_faults import Killed, WatchedObjects

pytestmark = pytest.mark.s3

SEGMENTS = segments_path(TASK)
HISTORY = history_path(TASK)


@pytest.fixture
def s3_histories(objects: WatchedObjects) -> S3Histories:
    return S3Histories(objects)


def _stored(objects: WatchedObjects) -> list[TaskStep]:
    """Return the steps of `history.jsonl`."""
    stored = objects.get(HISTORY)
    return [] if stored is None else [parse_step(line) for line in stored.data.splitlines()]


def test_a_compaction_leaves_one_file(s3_histories: S3Histories, objects: WatchedObjects) -> None:
    steps = append_steps(s3_histories, 5)
    assert objects.names(SEGMENTS) == [f"0000000{seq}.json" for seq in range(5)]
    s3_histories.compact(TASK)
    stored = objects.get(HISTORY)
    assert stored is not None
    assert stored.data == b"".join(step.line().encode() + b"\n" for step in steps)
    assert objects.names(SEGMENTS) == []


@pytest.mark.parametrize("removed", [0, 2])
def test_a_compaction_that_dies_while_it_removes_segments_loses_nothing(
    objects: WatchedObjects, s3_histories: S3Histories, removed: int
) -> None:
    steps = append_steps(s3_histories, 3)
    dying = objects.for_another_worker()
    dying.die_before("delete", removed + 1)
    with pytest.raises(Killed):
        S3Histories(dying).compact(TASK)
    assert objects.get(HISTORY) is not None
    assert len(objects.names(SEGMENTS)) == 3 - removed
    assert_history(s3_histories, steps)
    assert s3_histories.append(TASK, step_after(steps[:2], "another")) == steps[2]
    steps.append(step_after(steps))
    assert s3_histories.append(TASK, steps[-1]) == steps[-1]
    assert_history(s3_histories, steps)
    s3_histories.compact(TASK)
    assert objects.names(SEGMENTS) == []
    assert_history(s3_histories, steps)


@pytest.mark.parametrize("nth", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("whole", [True, False])
def test_a_compaction_beside_a_compaction_and_an_append_loses_nothing(
    objects: WatchedObjects, s3_histories: S3Histories, nth: int, whole: bool
) -> None:
    """Another compaction runs before the nth call of this one, or dies before it removes segments; a step is added."""
    steps = append_steps(s3_histories, 3)
    slow = objects.for_another_worker()
    left = nth

    def meanwhile(name: str, path: str) -> None:
        nonlocal left
        left -= 1
        if left:
            return
        quick = objects.for_another_worker()
        if not whole:
            quick.die_before("delete", 1)
        with suppress(Killed):
            S3Histories(quick).compact(TASK)
        steps.append(step_after(steps))
        assert s3_histories.append(TASK, steps[-1]) == steps[-1]

    slow.before = meanwhile
    if S3Histories(slow).compact(TASK):
        assert _stored(objects)[:3] == steps[:3], "the steps that were committed before the compaction"
    assert list(s3_histories.read(TASK)) == steps
    assert s3_histories.compact(TASK)
    assert _stored(objects) == steps
    assert list(s3_histories.read(TASK)) == steps
    assert objects.names(SEGMENTS) == []


@pytest.mark.parametrize("seq", [0, 2])
def test_a_segment_of_a_dead_late_writer_is_ignored(
    objects: WatchedObjects, s3_histories: S3Histories, seq: int
) -> None:
    steps = append_steps(s3_histories, 3)
    s3_histories.compact(TASK)
    dying = objects.for_another_worker()
    dying.die_before("metadata")
    with pytest.raises(Killed):
        S3Histories(dying).append(TASK, step_after(steps[:seq], "late"))
    assert objects.names(SEGMENTS) == [f"0000000{seq}.json"]
    assert_history(s3_histories, steps)
    assert s3_histories.append(TASK, step_after(steps[:seq], "later")) == steps[seq]
    steps.append(step_after(steps))
    assert s3_histories.append(TASK, steps[-1]) == steps[-1]
    assert_history(s3_histories, steps)
    s3_histories.compact(TASK)
    assert_history(s3_histories, steps)
    assert objects.names(SEGMENTS) == []


@pytest.mark.parametrize("nth", [1, 2, 3, 5])
@pytest.mark.parametrize("start", [0, 2])
def test_a_reader_beside_a_compaction_and_an_append_sees_every_step(
    objects: WatchedObjects, s3_histories: S3Histories, nth: int, start: int
) -> None:
    steps = append_steps(s3_histories, 3)
    slow = objects.for_another_worker()
    left = nth

    def meanwhile(name: str, path: str) -> None:
        nonlocal left
        left -= 1
        if not left:
            s3_histories.compact(TASK)
            steps.append(step_after(steps))
            s3_histories.append(TASK, steps[-1])

    slow.before = meanwhile
    found = list(S3Histories(slow).read(TASK, start))
    assert found == steps[start : start + len(found)]
    assert len(found) >= 3 - start


@pytest.mark.parametrize("lost", [0, 2])
def test_a_history_that_lacks_a_segment_is_corrupt_and_not_compacted(
    objects: WatchedObjects, s3_histories: S3Histories, lost: int
) -> None:
    steps = append_steps(s3_histories, 4)
    objects.delete(f"{SEGMENTS}{lost:08d}.json")
    for _ in range(2):
        with pytest.raises(CorruptHistory, match=f"{TASK!r} lacks a step"):
            list(s3_histories.read(TASK))
        assert not s3_histories.compact(TASK)
    objects.put(f"{SEGMENTS}{lost:08d}.json", steps[lost].line().encode())
    assert_history(s3_histories, steps)


def _replace_metadata(objects: WatchedObjects, **metadata: str) -> None:
    """Store `history.jsonl` again with this metadata, as a restore from a file does."""
    stored = objects.get(HISTORY)
    assert stored is not None
    objects.put(HISTORY, stored.data, Metadata=metadata)


INVALID_METADATA = [{}, {"steps": "four"}, {"steps": "-1"}, {"steps": ""}]


@pytest.mark.parametrize("metadata", INVALID_METADATA, ids=str)
def test_a_history_without_its_step_count_keeps_its_steps(
    objects: WatchedObjects, s3_histories: S3Histories, metadata: dict[str, str]
) -> None:
    steps = append_steps(s3_histories, 4)
    s3_histories.compact(TASK)
    _replace_metadata(objects, **metadata)
    assert_history(s3_histories, steps)
    for seq in range(4):
        assert s3_histories.append(TASK, step_after(steps[:seq], "late")) == steps[seq]
    assert objects.names(SEGMENTS) == []
    lines = list(s3_histories.lines(TASK))
    assert s3_histories.create(TASK, lines[:2])
    assert not s3_histories.create(TASK, [step_after([], "another").line().encode()])
    steps.append(step_after(steps))
    assert s3_histories.append(TASK, steps[-1]) == steps[-1]
    assert_history(s3_histories, steps)


@pytest.mark.parametrize("data", [b"{no line", b"no step\n", b"no step\n" * 9, b"\n"])
def test_a_history_that_cannot_be_counted_is_corrupt_and_never_replaced(
    objects: WatchedObjects, s3_histories: S3Histories, data: bytes
) -> None:
    objects.put(HISTORY, data)
    first = step_after([])
    uses: list[Callable[[], object]] = [
        lambda: s3_histories.append(TASK, first),
        lambda: s3_histories.create(TASK, [first.line().encode()]),
        lambda: list(s3_histories.read(TASK)),
        lambda: list(s3_histories.read(TASK, 3)),
        lambda: list(s3_histories.lines(TASK)),
        lambda: s3_histories.compact(TASK),
    ]
    for use in uses:
        with pytest.raises(CorruptHistory, match=f"'{HISTORY}'.*restore the object"):
            use()
    stored = objects.get(HISTORY)
    assert stored is not None
    assert stored.data == data


def test_a_restored_history_that_lacks_a_line_is_not_compacted(
    objects: WatchedObjects, s3_histories: S3Histories
) -> None:
    steps = append_steps(s3_histories, 3)
    s3_histories.compact(TASK)
    objects.put(HISTORY, b"".join(step.line().encode() + b"\n" for step in (steps[0], steps[2])))
    with pytest.raises(CorruptHistory, match=f"'{HISTORY}'"):
        s3_histories.compact(TASK)


def test_the_cost_of_an_append_and_a_read_does_not_grow_with_the_history(
    objects: WatchedObjects, s3_histories: S3Histories
) -> None:
    costs: list[tuple[int, int]] = []
    steps: list[TaskStep] = []
    for count in (2, 20):
        while len(steps) < count:
            steps.append(step_after(steps))
            s3_histories.append(TASK, steps[-1])
        s3_histories.compact(TASK)
        steps.append(step_after(steps))
        objects.calls.clear()
        s3_histories.append(TASK, steps[-1])
        appended = len(objects.calls)
        assert list(s3_histories.read(TASK, len(steps) - 1)) == steps[-1:]
        costs.append((appended, len(objects.calls) - appended))
    assert costs[0] == costs[1]
    assert max(costs[0]) <= 3

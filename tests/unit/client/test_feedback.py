"""Feedback: a caller's rating of a step is stored once, and the newest one counts."""

from typing import Any

import pytest

from roboco.client.feedback import read_feedback, store_feedback
from roboco.domain.feedback import Feedback
from roboco.errors import NotFound, UsageError
from tests.support.memory_ports.journeys import SEQUENTIAL
from tests.support.memory_ports.world import TASK, World

GOOD = {"sentiment": "positive", "categories": ["helpful"], "notes": None}


def finished() -> World:
    return SEQUENTIAL.run(SEQUENTIAL.world())


def store(world: World, seq: int = 1, by: str = "key:a", **changes: Any) -> Feedback:
    return store_feedback(world.engine, TASK, seq, by, GOOD | changes)


def test_the_same_rating_again_changes_nothing_and_a_newer_one_replaces_it() -> None:
    world = finished()
    first = store(world)
    world.clock.move(10)
    assert store(world) == first
    newer = store(world, sentiment="negative", notes="no")
    assert (newer.feedback_id, newer.created_at) == (first.feedback_id, first.created_at)
    assert newer.modified_at > first.modified_at
    assert read_feedback(world.engine.workspace, TASK) == [newer]


def test_a_rating_that_is_overtaken_by_another_write_is_stored_after_it() -> None:
    world = finished()
    overtaken: list[bool] = []

    def watch(name: str, call: Any) -> Any:
        if name == "files.replace" and not overtaken:
            overtaken.append(True)
            store(world, notes="from another process")
        return call()

    world.watch = watch
    assert store(world, notes="mine").notes == "mine"
    assert [feedback.notes for feedback in read_feedback(world.engine.workspace, TASK)] == ["mine"]


@pytest.mark.parametrize(
    ("seq", "changes"),
    [(0, {}), (1, {"sentiment": "mixed"}), (1, {"categories": ["x"] * 21}), (1, {"notes": "x" * 4001})],
)
def test_a_wrong_rating_is_refused(seq: int, changes: dict[str, Any]) -> None:
    world = finished()
    with pytest.raises(UsageError):
        store(world, seq, **changes)
    assert read_feedback(world.engine.workspace, TASK) == []
    for missing in (-1, 99):
        with pytest.raises(NotFound):
            store(world, missing)

"""Messages of other applications: a sender cannot use the item ids that Roboco reserves."""

import json
from pathlib import Path

import pytest

from roboco.broker.names import SEND_TASK, SUBMIT_TASK
from roboco.client.commands import handle
from roboco.domain.ids import answer_id, approval_id, change_id, fork_item_id
from roboco.engine.engine import Policy
from roboco.errors import Overloaded, UsageError
from roboco.settings import Settings
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.world import TASK, World, world_parts


@pytest.mark.parametrize(
    "item_id", [answer_id("call_1"), approval_id("call_1"), change_id("call_1"), fork_item_id("task_1"), "stop-call_1"]
)
def test_a_sender_cannot_use_a_reserved_id(item_id: str) -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    message = {"task_id": TASK, "message": "hello", "item_id": item_id}
    with pytest.raises(UsageError, match="has a prefix that Roboco reserves"):
        handle(world.engine, Settings(), SEND_TASK, message, "unused")
    assert item_id not in world.pending_item_ids()


def test_a_submission_beyond_capacity_is_refused_on_the_tasks_channel(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(json.dumps(MANUAL.team.model_dump(mode="json", by_alias=True)))
    world = World(world_parts(lambda request: None, policy=Policy(15.0, 10.0, max_queued=0)))
    submission = {"task_id": TASK, "team": "desk", "prompt": "hello"}
    with pytest.raises(Overloaded):
        handle(world.engine, Settings(teams_dir=tmp_path), SUBMIT_TASK, submission, "unused")
    [refusal] = world.published()
    assert (refusal["type"], refusal["code"]) == ("event_error", "refused")

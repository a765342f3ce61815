"""Messages from outside: the ids that Roboco makes itself cannot be taken by a sender."""

import pytest

from roboco.adapters.celery.names import SEND
from roboco.client.commands import take
from roboco.domain.ids import fork_item_id
from roboco.engine.intake.answer import answer_id, change_id, verdict_id
from roboco.errors import UsageError
from roboco.settings import Settings
from tests.memory.journeys import MANUAL
from tests.memory.world import TASK


@pytest.mark.parametrize(
    "item_id", [answer_id("call_1"), verdict_id("call_1"), change_id("call_1"), fork_item_id("task_1"), "stop-call_1"]
)
def test_a_sender_cannot_take_an_id_of_roboco(item_id: str) -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    message = {"task_id": TASK, "message": "hello", "item_id": item_id}
    with pytest.raises(UsageError, match="has a prefix that Roboco reserves"):
        take(world.engine, Settings(), SEND, message, "unused")
    assert item_id not in world.untaken()

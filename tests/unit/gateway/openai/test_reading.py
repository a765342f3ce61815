"""Reading a response as of now, while the calls that its request has answered are at work."""

from typing import Any, cast

from roboco.client.task import Task
from roboco.gateway.openai.reading import read_response
from roboco.gateway.openai.response_object import ResponseHead
from roboco.settings import Settings
from tests.support.memory_ports.journeys import FAILING
from tests.support.memory_ports.model import says
from tests.support.memory_ports.world import TASK
from tests.unit.engine.test_listings import listing, run_shop_task


def test_a_turn_that_fails_for_good_is_a_failed_response_and_the_next_message_another_one() -> None:
    world = FAILING.at_rest(conversation=True)
    task, head = Task(TASK, world.engine, cast(Any, None), Settings()), ResponseHead(TASK, "desk")
    failed = read_response(task, head, 0)
    assert (failed["status"], "the model refuses" in failed["error"]["message"]) == ("failed", True)
    world.given.model.script = lambda request: says("well")
    position = len(world.history())
    world.send("again")
    world.settle()
    assert read_response(task, head, 0) == failed
    answered = read_response(task, head, position)
    assert (answered["status"], answered["output"][0]["content"][0]["text"]) == ("completed", "well")


def test_a_call_whose_tool_has_changed_asks_for_another_decision() -> None:
    """Its request may have approved the call. The response has no step yet, and it waits for its client."""
    world, _ = run_shop_task(2, later=listing("Sell."))
    world.settle()
    task = Task(TASK, world.engine, cast(Any, None), Settings())
    call = world.history()[1].calls[0]
    asked = read_response(task, ResponseHead(TASK, "desk"), 2)
    assert asked["status"] == "completed"
    assert [(item["type"], item["id"]) for item in asked["output"]] == [
        ("mcp_approval_request", f"mcpr_{call.id}.{TASK}")
    ]
    world.decide_approval(call.id, True)
    accepted = read_response(task, ResponseHead(TASK, "desk"), 2)
    assert (accepted["status"], accepted["output"]) == ("queued", [])
    world.settle()
    assert read_response(task, ResponseHead(TASK, "desk"), 2)["status"] == "completed"

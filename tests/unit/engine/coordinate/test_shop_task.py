"""shop_task and task_answer: tool calls that Celery tasks of another application answer."""

import re
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from roboco.domain.canonical_json import canonical_json
from roboco.domain.ids import shop_task_id
from roboco.domain.paths import intent_path
from roboco.domain.status import TaskStatus
from roboco.engine.accept.answer import MAX_EXTERNAL_RESULT_BYTES
from roboco.engine.accept.wait_cause import wait_cause
from roboco.engine.coordinate.shop_task import TaskAnswer
from roboco.errors import Forbidden, TransientError, UsageError
from roboco.workers.tasks import handle_task_answer
from tests.support.memory_ports.journeys import assert_whole
from tests.support.memory_ports.shop import answer_of
from tests.support.memory_ports.shop_world import ShopWorld
from tests.support.memory_ports.world import TASK


def test_a_celery_task_answers_a_call() -> None:
    world = ShopWorld().begin()
    [call, _] = world.history()[1].calls
    [sent] = world.shop.sent
    assert (sent.message_id, sent.args) == (shop_task_id(TASK, 1, call.id), {"file": "a.pdf"})
    assert (sent.tool.task, sent.tool.queue, round(sent.seconds)) == ("docs.parse", "parsing", 60)
    since = r"Celery task docs\.parse \(task_1/0002/shop/tc_\w+\) waits or runs in queue parsing, since 20"
    assert re.match(since, world.reason)
    assert wait_cause(world.engine, TASK, world.engine.tasks.task_store.load(TASK, 1)) is None, "no worker is missing"
    world.run()
    assert [(result.result, result.error) for result in world.results()] == [(["file"], None)]
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")


@pytest.mark.parametrize(
    ("effect", "error"),
    [
        ("idempotent", "Celery task docs.parse (task_1/0002/shop/tc_"),
        ("irreversible", "outcome unknown: Celery task docs.parse"),
    ],
)
def test_a_call_without_an_answer_ends_at_its_timeout(effect: str, error: str) -> None:
    world = ShopWorld(effect=effect).begin()
    late = [answer_of(task) for task in world.shop.sent]
    began = world.clock.now()
    world.run(works=False)
    [result] = world.results()
    assert str(result.error).startswith(error)
    assert "has not answered within its 60 s" in str(result.error)
    assert 60 <= world.clock.now() - began < 80
    world.answers = late
    world.deliver_answers()
    assert world.refusals == [
        f"task '{TASK}' has ended (completed) and takes no more items; submit a new task, or fork this one"
    ]
    assert_whole(world, "")


def test_a_failure_with_an_unknown_effect_goes_to_a_person() -> None:
    world = ShopWorld(({"file": "a", "fails": True},), on_unknown="ask").begin().run()
    assert world.status() is TaskStatus.APPROVAL
    assert "event_tool_unknown" in [event["type"] for event in world.published()]


def test_the_first_answer_counts() -> None:
    world = ShopWorld().begin()
    [answer] = world.shop.take()
    world.answers = [replace(answer, result=1), replace(answer, result=2), replace(answer, failed=True)]
    world.run()
    assert [result.result for result in world.results()] == [1]


@pytest.mark.parametrize("change", [{"secret": "guessed"}, {"call_id": "tc_other"}, {"task_id": "other"}])
def test_a_forged_answer_is_refused(change: dict[str, Any]) -> None:
    world = ShopWorld().begin()
    world.answers = [replace(answer, **change) for answer in world.shop.take()]
    world.deliver_answers()
    assert "no Celery task was sent for call" in world.refusals[0]
    assert TASK in world.server.held.tasks
    assert not world.pending_item_ids()


def test_followers_learn_of_a_late_answer_and_not_of_a_forged_one() -> None:
    world = ShopWorld().begin()
    [answer] = world.shop.take()
    world.run(works=False)
    before = len(world.server.published)
    with pytest.raises(Forbidden):
        handle_task_answer(world.engine, replace(answer, secret="guessed"))
    assert len(world.server.published) == before
    with pytest.raises(UsageError, match="has ended"):
        handle_task_answer(world.engine, answer)
    assert "refused" in world.server.published[before][1]


@pytest.mark.parametrize("secret", ["guessed", "the lease"])
def test_an_answer_to_the_call_of_a_function_is_refused_and_quotes_nothing(secret: str) -> None:
    world, facts = ShopWorld(), {"call": {"id": "tc_1", "tool_name": "refund"}, "attempt": 1, "token": "the lease"}
    world.files.create(intent_path(TASK, "tc_1"), canonical_json(facts).encode())
    with pytest.raises(Forbidden, match="no Celery task was sent") as error:
        handle_task_answer(world.engine, TaskAnswer(TASK, "tc_1", secret, False, "ok"))
    assert "the lease" not in str(error.value)


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ("x" * MAX_EXTERNAL_RESULT_BYTES, f"its result has {MAX_EXTERNAL_RESULT_BYTES + 2} bytes of JSON, at most"),
        (float("nan"), "its result is no JSON"),
        (b"\xff", "its result is no JSON"),
    ],
)
def test_a_result_that_the_history_cannot_hold_is_an_error_with_this_cause(result: object, error: str) -> None:
    world = ShopWorld().begin()
    world.answers = [replace(answer, result=result) for answer in world.shop.take()]
    world.run()
    assert error in str(world.results()[0].error)


@pytest.mark.parametrize(
    ("args", "refused", "error"),
    [
        ({"other": 1}, "", '"file" is a required property'),
        ({"file": {"__type__": "bytes", "__value__": "x"}}, "", "wrong arguments"),
        ({"file": "a", "more": {"__type__": "bytes", "__value__": "x"}}, "", "the key '__type__'"),
        ({"file": "a"}, "not allowed", "not sent: not allowed"),
    ],
)
def test_nothing_is_sent_for_a_call_that_is_not_allowed(args: dict[str, Any], refused: str, error: str) -> None:
    world = ShopWorld((args,))
    world.shop.refused = refused
    world.begin().run()
    assert error in str(world.results()[0].error)
    assert not world.shop.sent


@pytest.mark.parametrize(("on_stop", "revoked"), [("leave", []), ("revoke", [False]), ("terminate", [True])])
@pytest.mark.parametrize("stops", [True, False], ids=["stop", "interruption"])
def test_a_stop_and_an_interruption_revoke_where_the_team_asks(on_stop: str, revoked: list[bool], stops: bool) -> None:
    world = ShopWorld(on_stop=on_stop).begin()
    [sent] = world.shop.sent
    world.stop() if stops else world.halt()
    world.run(works=False)
    assert world.shop.revoked == [(sent.message_id, terminate) for terminate in revoked]
    assert "outcome unknown" in str(world.results()[0].error)
    assert world.status() is (TaskStatus.CANCELLED if stops else TaskStatus.USER_TURN)


def test_a_broker_that_does_not_answer_lets_the_call_wait_and_its_timeout_begins_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, tries = ShopWorld(), count(1)

    def check(_: object) -> None:
        if world.shop.is_away:
            raise TransientError(f"amqp://10.0.0.7 does not answer, try {next(tries)}")

    monkeypatch.setattr(world.shop, "check", check)
    world.shop.is_away = True
    world.begin()
    for _ in range(20):
        world.clock.move(world.server.held.schedule[TASK] - world.clock.now())
        world.sweep()
        world.drain()
    assert world.clock.now() - world.history()[1].created_at.timestamp() > 60
    assert not world.shop.sent
    assert next(tries) > 2
    reasons = {str(event["reason"]) for event in world.published() if "not sent now" in str(event.get("reason"))}
    assert reasons == {world.reason}, "it is constant, and names no host"
    assert world.reason.startswith("Celery task docs.parse (")
    assert ") is not sent now: the broker of the application does not take it; the log of the coord" in world.reason
    world.shop.is_away = False
    world.run()
    assert [result.result for result in world.results()] == [["file"]]


def test_a_tool_that_is_switched_off_is_not_sent_until_it_is_on() -> None:
    world = ShopWorld()
    switches = world.engine.process.switches
    switches.switch_off("tool:parse", "maintenance", False, None, world.engine.now())
    world.begin()
    assert world.reason == "tool:parse is switched off: maintenance"
    messages = len(world.dispatcher.sent)
    for _ in range(5):
        world.clock.move(world.server.held.schedule[TASK] - world.clock.now())
        world.sweep()
    assert (world.shop.sent, len(world.dispatcher.sent)) == ([], messages)
    switches.switch_on("tool:parse")
    world.run()
    assert [result.result for result in world.results()] == [["file"]]

"""notifications: the targets of a task receive its statuses, in order, at least once each, despite any failure."""

import json
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.notification import MAX_RETRY_DELAY, MAX_TARGETS, Notification, NotificationName, NotifyTarget
from roboco.domain.paths import (
    NOTIFY_MARKERS,
    finished_notification_path,
    notifications_path,
    notify_targets_path,
    push_receivers_path,
)
from roboco.domain.push_notification import PushConfig
from roboco.domain.push_receivers import MAX_PLACES, PushReceivers
from roboco.domain.status import TaskStatus
from roboco.engine import notifications as notify
from roboco.engine.operate.notification_delivery import (
    CONFIRM_TIMEOUT,
    DELIVERY_PERIOD,
    FINAL_ATTEMPT_BEFORE_END,
)
from roboco.errors import RetryLater, TransientError, UsageError
from tests.support.memory_ports.journeys import FAILING, GRAPH, MANUAL, Journey
from tests.support.memory_ports.notifications import HOOK, SHOP, URL, deliver_all
from tests.support.memory_ports.watch import Crash, Fault, PortCall, Watch, crash_at, make_call
from tests.support.memory_ports.world import TASK, World


def run_and_deliver(journey: Journey, *targets: dict[str, Any], watch: Watch = make_call) -> World:
    """Return the world of a completed journey after the delivery of its notifications."""
    world = journey.world(watch)
    submitting = replace(journey, options={"notify": list(targets)})
    submitting.run(world)
    deliver_all(world)
    return world


def test_the_body_of_a_notification_has_an_id_a_type_a_time_and_data() -> None:
    body = run_and_deliver(FAILING, SHOP).notifier.deliveries[0][1].body()
    assert set(body) == {"id", "type", "timestamp", "data"}
    assert body["type"] == "task.failed"
    assert set(body["data"]) == {
        *(
            "task_id",
            "team",
            "status",
            "reason",
            "retry_of",
            "steps",
            "tokens_in",
            "tokens_out",
            "cost",
            "output",
            "text",
            "truncated",
        ),
    }
    assert "the model refuses" in body["data"]["reason"]


def test_only_requested_statuses_are_delivered_in_order() -> None:
    world = run_and_deliver(MANUAL, SHOP, HOOK)
    assert world.notifier.statuses("shop.done") == ["cancelled"]
    assert world.notifier.statuses(URL) == ["user_turn", "user_turn", "user_turn", "cancelled"]


def webhook_for(*statuses: str) -> dict[str, Any]:
    """Return a webhook for these statuses."""
    return HOOK | {"on": list(statuses)}


def test_a_file_with_an_invalid_name_does_not_keep_a_task_open(caplog: pytest.LogCaptureFixture) -> None:
    world = MANUAL.at_rest(notify=[webhook_for("user_turn", "cancelled")])
    world.files.held[f"{notifications_path(TASK)}order-17~.json"] = b"{}"
    world.stop()
    world.settle()
    deliver_all(world)
    assert world.notifier.statuses(URL) == ["user_turn", "cancelled"]
    assert world.summary().status is TaskStatus.CANCELLED
    assert "order-17~" in caplog.text


def test_a_target_cannot_delay_a_notification_beyond_the_delivery_period() -> None:
    world = GRAPH.world()
    world.notifier.error = RetryLater("the server is busy", 10 * DELIVERY_PERIOD)
    replace(GRAPH, options={"notify": [SHOP]}).run(world)
    world.drain()
    due = world.server.held.schedule[notify.schedule_key(TASK)]
    assert due == pytest.approx(world.clock.now() + DELIVERY_PERIOD - FINAL_ATTEMPT_BEFORE_END, abs=1)
    world.notifier.error = None
    world.clock.move(due - world.clock.now())
    deliver_all(world)
    assert world.notifier.statuses("shop.done") == ["completed"]


def test_an_unreachable_target_does_not_delay_another() -> None:
    world = GRAPH.world(_refuse_target(URL))
    replace(GRAPH, options={"notify": [HOOK, SHOP]}).run(world)
    world.drain()
    assert world.notifier.statuses("shop.done") == ["completed"]


def _refuse_target(name: str) -> Watch:
    def watch(port: str, call: Any) -> Any:
        if port == "notifier.deliver" and call.args[0].label == name:
            raise TransientError("away")
        return call()

    return watch


def test_a_notification_that_failed_once_is_delivered_before_later_ones() -> None:
    attempts = 0

    def fail_once(port: str, call: Any) -> Any:
        nonlocal attempts
        attempts += port == "notifier.deliver"
        if port == "notifier.deliver" and attempts == 1:
            raise TransientError("away")
        return call()

    world = MANUAL.world(fail_once)
    replace(MANUAL, options={"notify": [HOOK]}).run(world)
    deliver_all(world)
    assert attempts == 5
    assert world.notifier.statuses(URL) == [*["user_turn"] * 3, "cancelled"]


@pytest.mark.parametrize("error", [UsageError("it is not allowed"), TransientError("it is away")])
def test_an_undeliverable_notification_becomes_a_dead_letter_and_can_be_requeued(error: Exception) -> None:
    world = GRAPH.world()
    world.notifier.error = error
    replace(GRAPH, options={"notify": [SHOP]}).run(world)
    start = world.clock.now()
    while not world.server.held.letters:
        world.clock.move(600)
        world.sweep()
        world.drain()
        assert world.clock.now() - start < DELIVERY_PERIOD + MAX_RETRY_DELAY
    (letter,) = world.engine.tasks.dead_letters.entries()
    assert (letter.name, letter.task_id) == ("roboco.notify", TASK)
    assert str(error) in letter.reason
    assert world.files.names(NOTIFY_MARKERS) == []
    world.notifier.error = None
    notify.retry_abandoned(world.engine, TASK, letter.detail)
    deliver_all(world)
    assert world.notifier.statuses("shop.done") == ["completed"]
    kept = Notification.model_validate_json(
        world.files.held[finished_notification_path(TASK, NotificationName.parse(letter.detail).seq, letter.detail)]
    )
    assert (kept.delivery, kept.round) == ("delivered", 1)
    with pytest.raises(UsageError, match="that was given up"):
        notify.retry_abandoned(world.engine, TASK, letter.detail)


def test_a_notification_that_kills_its_workers_is_abandoned() -> None:
    calls: list[str] = []

    def watch(name: str, call: PortCall) -> Any:
        calls.append(name)
        return crash_at("notifier.deliver")(name, call)

    world = run_and_deliver(GRAPH, SHOP, watch=watch)
    assert calls.count("notifier.deliver") == world.given.policy.max_attempts
    assert "3 workers were lost" in world.engine.tasks.dead_letters.entries()[0].reason


def test_a_notification_with_confirmation_is_repeated_until_it_is_confirmed() -> None:
    world = GRAPH.world()
    replace(GRAPH, options={"notify": [SHOP | {"confirmed": True, "continuation": "{}"}]}).run(world)
    world.drain()
    start = world.clock.now()
    while len(world.notifier.deliveries) < 3:
        world.clock.move(notify.REDELIVERY_DELAY)
        world.sweep()
        world.drain()
    assert world.clock.now() - start >= 2 * CONFIRM_TIMEOUT
    notice = world.notifier.deliveries[-1][1]
    notify.confirm(world.engine, TASK, notice.name)
    notify.confirm(world.engine, TASK, notice.name)
    deliver_all(world)
    assert len(world.notifier.deliveries) == 3
    with pytest.raises(UsageError, match="no notification"):
        notify.confirm(world.engine, TASK, "0-00000001-failed")


def push_receiver(push_id: str) -> NotifyTarget:
    """Return a receiver of push notifications."""
    config = PushConfig(id=push_id, task_id="t", context_id="c")
    return NotifyTarget(webhook=f"https://push.example/{push_id}", on=(*HOOK["on"],), push=config)


def waiting_world() -> World:
    """Return the world of a task that waits, to which receivers may be added."""
    return MANUAL.at_rest(notify=[])


def calls_of_adding() -> list[str]:
    world = waiting_world()
    world.watch = counting = Fault(10**9, lambda: None)
    notify.set_push_receiver(world.engine, TASK, push_receiver("a"))
    world.watch = make_call
    return counting.seen


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_an_added_receiver_hears_of_the_wait_once_wherever_the_gateway_dies(after: bool) -> None:
    for number, name in enumerate(calls_of_adding(), 1):
        world = waiting_world()
        world.watch = Fault(number, Crash(), after)
        with pytest.raises(Crash):
            notify.set_push_receiver(world.engine, TASK, push_receiver("a"))
        world.watch = make_call
        world.engine = world.process()
        notify.set_push_receiver(world.engine, TASK, push_receiver("a"))  # by another gateway
        deliver_all(world)
        world.stop()
        world.settle()
        deliver_all(world)
        assert world.notifier.statuses("https://push.example/a") == ["user_turn", "cancelled"], f"{number} {name}"


def test_coordinators_of_earlier_releases_see_no_push_receiver() -> None:
    """They read `notify.json`, and refuse a target that lacks `secret_env`: they could not close the task."""
    world = waiting_world()
    notify.set_push_receiver(world.engine, TASK, push_receiver("a"))
    assert notify_targets_path(TASK) not in world.files.held
    names = map(NotificationName.parse, notify.pending_names(world.engine.workspace, TASK))
    assert [name.target for name in names] == [MAX_TARGETS]


def test_a_later_release_may_add_fields_to_push_receivers() -> None:
    world = waiting_world()
    notify.set_push_receiver(world.engine, TASK, push_receiver("a"))
    path = push_receivers_path(TASK)
    stored = json.loads(world.files.held[path])
    stored["receivers"]["8"]["later"] = stored["receivers"]["8"]["push"]["later"] = stored["later"] = 1
    world.files.put(path, json.dumps(stored).encode())
    notify.set_push_receiver(world.engine, TASK, push_receiver("b"))
    found = notify.push_receivers(world.engine.workspace, TASK).receivers
    assert found == {8: push_receiver("a"), 9: push_receiver("b")}


def test_a_removed_receiver_leaves_room_and_no_place_for_its_notifications() -> None:
    world = waiting_world()
    world.notifier.error = TransientError("the webhook does not answer")
    for number in range(MAX_TARGETS + 2):
        notify.set_push_receiver(world.engine, TASK, push_receiver(str(number)))
        notify.remove_push_receiver(world.engine, TASK, str(number))
    for number in range(MAX_TARGETS):
        notify.set_push_receiver(world.engine, TASK, push_receiver(f"kept-{number}"))
    with pytest.raises(UsageError, match=r"at most 8 push receivers.*'kept-7'"):
        notify.set_push_receiver(world.engine, TASK, push_receiver("ninth"))
    notify.set_push_receiver(world.engine, TASK, push_receiver("kept-7"))
    world.notifier.error = None
    deliver_all(world)
    kept = [f"https://push.example/kept-{number}" for number in range(MAX_TARGETS)]
    assert sorted(label for label, _ in world.notifier.deliveries) == kept


def test_two_gateways_add_receivers_at_the_same_time() -> None:
    world = waiting_world()
    other = world.engine
    replacing = calls_of_adding().index("files.replace") + 1
    world.watch = Fault(replacing, lambda: _add_beside(world, push_receiver("b")))
    notify.set_push_receiver(other, TASK, push_receiver("a"))
    world.watch = make_call
    deliver_all(world)
    for push_id in ("a", "b"):
        assert world.notifier.statuses(f"https://push.example/{push_id}") == ["user_turn"]


def _add_beside(world: World, receiver: NotifyTarget) -> None:
    world.watch = make_call
    notify.set_push_receiver(world.engine, TASK, receiver)


def test_the_places_of_removed_receivers_are_bounded() -> None:
    full = PushReceivers(next_place=MAX_PLACES, receivers={MAX_TARGETS: push_receiver("a")})
    assert full.with_receiver(push_receiver("a")) == full
    with pytest.raises(UsageError, match="with those that were removed"):
        full.with_receiver(push_receiver("b"))

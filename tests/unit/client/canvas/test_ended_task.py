"""A canvas continues once after its team, despite failures, repeats and delays. Celery is real, ports are in memory."""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from celery import Celery
from celery.app.task import Context

from roboco.broker.continuation import MAX_REQUEST_CHARS, serialize_request
from roboco.celery import install
from roboco.client.canvas.ended_task import continue_canvas
from roboco.domain.notification import Notification, NotifyTarget
from roboco.domain.paths import NOTIFY_MARKERS, continued_path, finished_notifications_path
from roboco.engine.operate.notification_delivery import CONFIRM_TIMEOUT
from roboco.errors import TaskFailed, TransientError, UsageError
from tests.faults.enumerated import INJECTIONS, FaultedCall
from tests.support.memory_ports.journeys import FAILING, GRAPH, MANUAL, Journey
from tests.support.memory_ports.watch import Crash, PortCall, Watch, make_call
from tests.support.memory_ports.world import TASK, World
from tests.support.selection import PARTS, in_parts


@dataclass
class Shop:
    """A shop's application beside a world. `sent` holds the Celery tasks that it has sent, with their ids.

    Celery keeps the results of all applications in one memory. Therefore each shop has a separate Celery task id.
    """

    app: Celery
    world: World
    inbox: list[tuple[str, str]] = field(default_factory=list)
    sent: list[tuple[str, str]] = field(default_factory=list)
    celery_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def state(self, celery_id: str = "") -> str:
        """Return the state of the Celery task, or of another one."""
        return str(self.app.AsyncResult(celery_id or self.celery_id).state)

    def deliver(self, target: NotifyTarget, notice: Notification) -> None:
        """Put the message into the shop's queue."""
        self.inbox.append((notice.task_id, notice.name))

    def work(self) -> None:
        """Process the queued messages in a worker of the shop. A worker that dies loses its message."""
        while self.inbox:
            task_id, name = self.inbox.pop(0)
            try:
                continue_canvas(self.app, self.world.engine, task_id, name)
            except Crash:
                self.world.engine = self.world.process()
            except TransientError as error:
                self.world.failures.append(error)

    def settle(self) -> None:
        """Advance the clock until the shop has confirmed every notification."""
        for _ in range(60):
            self.world.drain()
            if not self.world.files.names(NOTIFY_MARKERS):
                return
            self.world.clock.move(CONFIRM_TIMEOUT)
            self.world.sweep()
        raise AssertionError(f"never confirmed: {self.world.failures[:3]}")


def start_shop(journey: Journey, watch: Watch = make_call) -> Shop:
    """Return a shop for a team of this journey, before the submission."""
    app = Celery("shop", broker="memory://", backend="cache+memory://", set_as_current=False)
    install(app)
    made = Shop(app, journey.world(watch))
    vars(made.world.notifier)["deliver"] = made.deliver
    plain: Callable[[], None] = made.world.drain

    def drain() -> None:
        plain()
        made.work()
        plain()

    vars(made.world)["drain"] = drain

    def send(name: str, *_: Any, **options: Any) -> Any:
        made.sent.append((name, str(options.get("task_id"))))
        return app.AsyncResult(str(options.get("task_id")))

    vars(app)["send_task"] = send
    return made


def continuation_target(made: Shop, changed: Mapping[str, Any] = MappingProxyType({}), **fields: Any) -> dict[str, Any]:
    """Return the target of the Celery task: a chain with one more task, a callback and an errback."""
    app = made.app
    parts = {
        "chain": [dict(app.signature("shop.publish").set(task_id=f"{made.celery_id}-next"))],
        "callbacks": [dict(app.signature("shop.hear").set(task_id="callback"))],
        "errbacks": [dict(app.signature("shop.complain").set(task_id="errback"))],
    }
    request = Context(id=made.celery_id, task="roboco.team", delivery_info={}, **{**parts, **changed})
    text = json.dumps({"request": serialize_request(request, False), "gives": "text"})
    return {"celery": {"task": "roboco.ended"}, "confirmed": True, "continuation": text} | fields


def run_shop(journey: Journey, watch: Watch = make_call, **fields: Any) -> Shop:
    """Run the journey to its end, and return its shop."""
    made = start_shop(journey, watch)
    replace(journey, options={"notify": [continuation_target(made, **fields)]}).run(made.world)
    made.settle()
    return made


def test_a_completed_team_continues_its_canvas() -> None:
    made = run_shop(GRAPH)
    assert made.sent == [("shop.hear", "callback"), ("shop.publish", f"{made.celery_id}-next")]
    result = made.app.AsyncResult(made.celery_id)
    assert (result.state, result.result) == ("SUCCESS", "APPROVED at last")


def test_a_failed_team_calls_errbacks_and_fails_the_rest_of_the_chain() -> None:
    made = run_shop(FAILING)
    assert made.sent == [("shop.complain", "errback")]
    for celery_id in (made.celery_id, f"{made.celery_id}-next"):
        result = made.app.AsyncResult(celery_id)
        assert result.state == "FAILURE"
        assert isinstance(result.result, TaskFailed)


def test_a_team_that_completes_in_words_fails_where_its_output_is_the_result() -> None:
    made = start_shop(GRAPH)
    target = continuation_target(made)
    target["continuation"] = target["continuation"].replace('"gives": "text"', '"gives": "output"')
    replace(GRAPH, options={"notify": [target]}).run(made.world)
    made.settle()
    assert made.sent == [("shop.complain", "errback")]
    failed = made.app.AsyncResult(made.celery_id).result
    assert isinstance(failed, TaskFailed)
    assert failed.args[2].startswith("its last answer has no typed output: ")


def test_a_stopped_team_is_revoked() -> None:
    made = run_shop(MANUAL)
    assert made.sent == []
    assert made.state() == "REVOKED"


def test_a_revoked_task_stays_revoked_if_its_team_completes() -> None:
    made = start_shop(GRAPH)
    made.app.backend.mark_as_revoked(made.celery_id, "revoked")
    replace(GRAPH, options={"notify": [continuation_target(made)]}).run(made.world)
    made.settle()
    (marker,) = made.world.files.names(finished_notifications_path(TASK, len(made.world.history())))
    continue_canvas(made.app, made.world.engine, TASK, marker.removesuffix(".json"))
    assert made.sent == []
    assert made.state() == "REVOKED"


def test_a_team_that_may_not_wait_fails_and_is_stopped() -> None:
    made = start_shop(MANUAL)
    target = continuation_target(made, on=["user_turn", "completed", "failed", "cancelled", "goals_failed"])
    made.world.submit(MANUAL.team, notify=[target])
    made.world.settle()
    made.settle()
    made.world.settle()
    assert made.sent == [("shop.complain", "errback")]
    assert made.state() == "FAILURE"
    assert made.world.summary().status == "cancelled"


def _is_marker_call(port: str, call: Any) -> bool:
    return bool(port.startswith("files.") and call.args and call.args[0] == continued_path(TASK))


UNSAFE_MOMENTS = {
    ("files.create", "fails"),
    ("files.create", "dies"),
    ("files.create", "late"),
    ("files.get", "answered-late"),
}
"""A worker dies, or stalls for a lease, after its last read of the marker and before it has created the marker."""


@in_parts
@pytest.mark.parametrize("kind", INJECTIONS)
@pytest.mark.parametrize(
    ("journey", "sent"), [(GRAPH, 2), pytest.param(FAILING, 1, marks=pytest.mark.slow)], ids=["completed", "failed"]
)
def test_a_canvas_continues_once_after_a_failure_at_any_call(journey: Journey, sent: int, kind: str, part: int) -> None:
    at, reached, unsafe = 1 + part, True, 0
    while reached:
        made, place = _run_with_failure(journey, kind, at)
        reached = place is not None
        where = f"{kind}@{at} {place}"
        ids = [celery_id for _, celery_id in made.sent]
        if place in UNSAFE_MOMENTS:
            unsafe += 1
            assert len(set(ids)) == sent, where  # sent twice, with the same ids
        else:
            assert len(ids) == len(set(ids)) == sent, where
        assert made.state() == ("SUCCESS" if journey is GRAPH else "FAILURE"), where
        at += PARTS
    assert at > 20
    assert unsafe <= 1


def _run_with_failure(journey: Journey, kind: str, at: int) -> tuple[Shop, tuple[str, str] | None]:
    """Run the journey with a failure at this port call. Return the shop and the place, or None if no such call happens.

    Call 1 is the delivery to the shop. Tests of notifications cover the calls before it.
    """
    calls, place = 0, None

    def watch(port: str, call: PortCall) -> Any:
        nonlocal calls, place
        calls += calls > 0 or port == "notifier.deliver"
        if calls != at:
            return call()
        place = (port if _is_marker_call(port, call) else f"{port} elsewhere", kind)
        return INJECTIONS[kind](FaultedCall(made.world, port, call))

    made = start_shop(journey, watch)
    replace(journey, options={"notify": [continuation_target(made)]}).run(made.world)
    made.settle()
    return made, place


def test_a_stored_request_is_json_and_bounded() -> None:
    request = partial(Context, id="1", task="roboco.team", delivery_info={"priority": 3, "exchange": ""})
    assert json.loads(serialize_request(request(), True))["delivery_info"] == {"priority": 3, "routing_key": None}
    with pytest.raises(UsageError, match="at most"):
        serialize_request(request(chain=["x" * MAX_REQUEST_CHARS]), False)
    with pytest.raises(UsageError, match="no JSON"):
        serialize_request(request(chain=[object()]), False)

"""Stuck tasks: those that should progress and do not, with their causes."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from roboco.broker.queues import QueueStats
from roboco.client.operator.operations import OpenTasks, Operations, StuckTask
from roboco.client.task_list import with_current_reason
from roboco.domain.day_budget import TenantBudgets
from roboco.domain.inbox.item import parse_item
from roboco.domain.task_filter import TaskFilter
from roboco.domain.usage import DayUsage, day_of
from roboco.engine.accept.wait_cause import current_cause, default_threshold
from roboco.engine.engine import Engine
from roboco.errors import ModelError, TransientError, UsageError
from roboco.ports.model import CallProgress
from roboco.ports.registry import POOLS, Registration, WorkspaceIdentity
from tests.support.gateway_rest import DESK, RestWorld, rest_world
from tests.support.memory_ports.dispatcher import Message, QueueDispatcher, ToolMessage, TurnMessage
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.registry import MemoryWorkerRegistry
from tests.support.memory_ports.task_store import MemoryTaskStore

HERE = WorkspaceIdentity("a", "file:///a")


SHIPPERS = DESK | {"name": "shippers", "tools": [DESK["tools"][0] | {"approval": "never"}]}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestWorld]:
    """Yield an empty deployment without a worker, whose messages a test delivers."""
    (tmp_path / "shippers.yaml").write_text(yaml.safe_dump(SHIPPERS))
    with rest_world(tmp_path) as started:
        yield started


def submit(rest: RestWorld, task_id: str = "acme:t", **fields: Any) -> None:
    body = {"team": "desk", "prompt": "work", "task_id": task_id, **fields}
    assert rest.post("/v1/tasks", body).status_code == 201


def start_workers(rest: RestWorld, *pools: str) -> None:
    registration = Registration(pools, (), HERE)
    MemoryWorkerRegistry(rest.world.server, rest.world.clock, f"{pools[0]}@x").register(registration, False)


def stuck(rest: RestWorld, **filters: Any) -> list[StuckTask]:
    """Return the stuck tasks, as a process sees them that has cached nothing."""
    queues, rest.world.engine = rest.orchestrator._operations._queues, rest.world.process()
    operations = Operations(rest.world.engine, queues, list, lambda _: OpenTasks())
    return operations.stuck(**filters).tasks


def text_of_cause(engine: Engine) -> str:
    """Return why the task waits, or ""."""
    cause = current_cause(engine, "", "acme:t")
    return "" if cause is None else cause.text


def wait(rest: RestWorld) -> None:
    """Let the default time without progress pass."""
    rest.world.clock.move(default_threshold(rest.world.engine).total_seconds() + 5)


def deliver_before(rest: RestWorld, kind: type[Message]) -> None:
    """Deliver messages until one of this kind is next."""
    queue = rest.world.dispatcher.queue
    while not isinstance(queue[0], kind):
        rest.world.deliver(queue.popleft())


def test_a_task_whose_message_waits_in_a_long_queue_names_its_depth(rest: RestWorld) -> None:
    submit(rest)
    deliver_before(rest, TurnMessage)
    wait(rest)
    start_workers(rest, *POOLS)
    rest.queues = [QueueStats("roboco.agents", 512)]
    [found] = stuck(rest)
    assert (found.kind, found.cause) == ("queue", "512 messages wait in roboco.agents: add agents workers")


@pytest.mark.parametrize("kind", ["redis", "broker"])
def test_a_server_that_takes_no_writes_is_the_cause_before_a_missing_worker(
    rest: RestWorld, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full Redis loses registrations, so no worker seems to live."""
    submit(rest)
    deliver_before(rest, TurnMessage)
    wait(rest)
    server = QueueDispatcher if kind == "broker" else MemoryTaskStore
    monkeypatch.setattr(server, "fault", lambda *_: "it is full; make room")
    [found] = stuck(rest)
    assert found.kind == kind
    assert found.cause.endswith("it is full; make room")
    assert text_of_cause(rest.world.engine) == found.cause


def test_a_silent_broker_does_not_hide_the_task(rest: RestWorld) -> None:
    def fail() -> Any:
        raise TransientError("the broker is silent")

    submit(rest)
    deliver_before(rest, TurnMessage)
    wait(rest)
    start_workers(rest, *POOLS)
    rest.orchestrator._operations._queues = fail
    [found] = stuck(rest)
    assert found.kind == "unknown"
    assert "the queues are not known: the broker is silent" in found.cause


@pytest.mark.parametrize(
    ("error", "kind", "cause"),
    [
        (ModelError("http_503", "the model server is down", True), "provider_outage", "the model server is down"),
        (ModelError("http_503", "x;id is switched off: y", True), "provider_outage", "x;id is switched off: y; next"),
        (ModelError("rate_limit", "slow down", True, 300.0), "rate_limit", "for the rate limit of model"),
    ],
)
def test_a_deferred_turn_names_the_outage_or_the_rate_limit(
    rest: RestWorld, error: ModelError, kind: str, cause: str
) -> None:
    rest.replies = [ScriptedReply(error=error)]
    submit(rest)
    deliver_before(rest, TurnMessage)
    rest.world.deliver(rest.world.dispatcher.queue.popleft())
    wait(rest)
    start_workers(rest, *POOLS)
    [found] = stuck(rest)
    assert found.kind == kind
    assert cause in found.cause
    assert "; failed attempts: 1 in 0 s" in found.cause


def test_a_turn_that_waits_for_the_budget_of_its_tenant_names_it(rest: RestWorld) -> None:
    world = rest.world
    world.given = replace(world.given, policy=replace(world.given.policy, budgets=TenantBudgets(("acme=/5",))))
    world.engine = world.process()
    world.engine.services.rate_limiter.count_day(
        "acme:earlier", None, 2, DayUsage(day=day_of(world.engine.now()), tokens=7)
    )
    submit(rest)
    deliver_before(rest, TurnMessage)
    world.deliver(world.dispatcher.queue.popleft())
    wait(rest)
    start_workers(rest, *POOLS)
    [found] = stuck(rest)
    assert found.kind == "budget"
    assert "writer waits: tenant acme has used 7 tokens today, its budget is 5" in found.cause


def test_an_answer_that_the_workspace_does_not_take_is_named_with_the_error(rest: RestWorld) -> None:
    world, seen = rest.world, list[str]()

    def watch(name: str, call: Any) -> Any:
        if name == "histories.append" and len(seen) < 2:
            world.heartbeat.beat()
            world.clock.move(1)
            seen.append(text_of_cause(world.process()))
            raise TransientError("the disk is full: make room")
        if name == "task_store.commit":
            world.heartbeat.beat()
            seen.append(text_of_cause(world.process()))
        return call()

    submit(rest)
    deliver_before(rest, TurnMessage)
    world.watch = watch
    world.engine = world.process()
    world.deliver(world.dispatcher.queue.popleft())
    assert "the disk is full" not in seen[0]
    kept = "the answer of model 'small' at http://model/v1 waits until the workspace takes it"
    assert seen[1] == f"{kept}: the disk is full: make room"
    assert "the disk is full" not in seen[2], "the answer is stored"
    assert len(world.history("acme:t")) == 2


@pytest.mark.parametrize("target", ["agent:writer", "tool:ship"])
def test_work_that_is_switched_off_names_the_switch_here_and_in_its_row(rest: RestWorld, target: str) -> None:
    """A call that is switched off was sent before, so only the reason of its task says why it does not run."""
    world = rest.world
    world.engine.process.switches.repair()  # as coordinators do
    rest.run("acme:done")
    rest.replies = [says("I ship", ("ship", {}))]
    world.engine.process.switches.switch_off(target, "the server is down", False, None, world.engine.now())
    world.clock.move(1)  # longer than a process relies on what it has read
    submit(rest, team="shippers")
    deliver_before(rest, TurnMessage)
    world.deliver(world.dispatcher.queue.popleft())
    if target == "tool:ship":
        deliver_before(rest, ToolMessage)
        world.deliver(world.dispatcher.queue.popleft())
    wait(rest)
    start_workers(rest, *POOLS)
    [found] = stuck(rest)
    cause = f"{target} is switched off: the server is down"
    assert (found.kind, found.cause) == ("switched_off", f"{cause}; on again: roboco switch on {target}")
    page = rest.orchestrator.task_page(status="open")
    [row] = rest.orchestrator.with_current_reasons(page.entries)
    assert (page.entries[0].reason, row.reason) == ("", cause)
    ended = rest.orchestrator.task_page(status="ended").entries
    assert len(ended) == 1
    assert rest.orchestrator.with_current_reasons(ended) == list(ended)


def test_a_task_whose_state_cannot_be_read_keeps_the_reason_of_the_index(rest: RestWorld) -> None:
    class BrokenStore:
        def load(self, task_id: str, tail: int) -> Any:
            return parse_item('{"kind": "of a newer release"}')

    submit(rest)
    [entry] = rest.orchestrator.task_page(status="open").entries
    assert with_current_reason(cast(Any, BrokenStore()), entry, 0.0) == entry


def test_a_model_that_sends_nothing_is_named_in_every_view(rest: RestWorld) -> None:
    seen: list[tuple[str, ...]] = []

    def hang() -> None:
        world = rest.world
        world.given.model.streams[-1].progress = CallProgress(2, 2, world.clock.now(), 120.0, "https://x.com/v1")
        for silence in (14, 95 - 14):
            world.clock.move(silence)
            world.heartbeat.beat()
            shown = rest.get("/v1/tasks/acme:t").json()["reason"]
            [row] = rest.orchestrator.with_current_reasons(rest.orchestrator.task_page(status="open").entries)
            explained = rest.get("/v1/tasks/acme:t/why").json()["end"]
            found = stuck(rest, until=world.engine.now())
            seen.append(
                (shown, row.reason, explained.removeprefix("it waits (running): "), *(one.cause for one in found))
            )

    rest.replies = [ScriptedReply(("text",), meanwhile=hang)]
    submit(rest)
    rest.world.settle("acme:t")
    text = "model 'small' at https://x.com/v1 has sent nothing for 95 s; the limit is 120 s; request 2 of 2"
    assert seen == [("", "", "it is being worked on (running); next: writer acts (sequential: next)"), (text,) * 4]


def test_a_running_turn_is_not_stuck_and_one_that_lost_workers_is(rest: RestWorld) -> None:
    submit(rest)
    deliver_before(rest, TurnMessage)
    message = rest.world.dispatcher.queue.popleft()
    assert isinstance(message, TurnMessage)
    rest.world.engine.tasks.leases.claim_turn(message.assignment, "agents@x", 1)
    start_workers(rest, *POOLS)
    older = {"until": rest.world.engine.now()}
    assert stuck(rest, **older) == []
    with rest.world.server as held:
        held.tasks["acme:t"].attempt = 3
    [found] = stuck(rest, **older)
    assert found.kind == "lost_attempts"
    assert found.cause.startswith("attempts at the turn of writer that workers lost: 2;")


def test_conditions_and_pages_limit_the_list(rest: RestWorld) -> None:
    for name in ("acme:a", "acme:b", "acme:c"):
        submit(rest, name)
    wait(rest)
    engine = rest.world.engine
    first = rest.orchestrator.operator.operations.stuck(2, tenant="acme")
    assert (len(first.tasks), bool(first.cursor)) == (2, True)
    second = rest.orchestrator.operator.operations.stuck(2, first.cursor, tenant="acme")
    assert [one.task_id for one in (*first.tasks, *second.tasks)] == ["acme:c", "acme:b", "acme:a"]
    assert stuck(rest, tenant="other") == []
    assert stuck(rest, until=engine.now() - timedelta(hours=1)) == []
    assert len(engine.tasks.task_index.page(TaskFilter()).entries) == 3
    with pytest.raises(UsageError, match="only queued and running"):
        stuck(rest, status="paused")
    with pytest.raises(UsageError, match="limit"):
        rest.orchestrator.operator.operations.stuck(5000)


def test_a_tenants_client_is_refused(rest: RestWorld) -> None:
    rest.orchestrator.settings = rest.orchestrator.settings.model_copy(update={"tenant": "acme"})
    with pytest.raises(UsageError, match="operator's"):
        _ = rest.orchestrator.operator.operations


def test_a_call_that_a_person_must_approve_is_not_stuck(rest: RestWorld) -> None:
    rest.replies = [says("I ship", ("ship", {}))]
    submit(rest)
    rest.world.settle("acme:t")
    wait(rest)
    assert stuck(rest) == []

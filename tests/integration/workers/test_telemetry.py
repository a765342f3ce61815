"""Telemetry of real workers: metrics of all three pools, logs in JSON, and the trace of a task."""

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from roboco import Task, Team, parse_team
from roboco.client.wiring import producer_app
from roboco.local.process import free_port
from roboco.telemetry.tracer import trace_ids
from tests.support.servers.model_server import Reply, Request
from tests.support.servers.trace_server import TraceServer
from tests.support.stack import POOLS, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

CANARY = "canary-of-the-prompt"
TEAM = {
    "name": "solo",
    "models": {"only": {"model": "scripted"}},
    "agents": [{"name": "worker", "prompt": "worker", "tools": ["add", "raise_error", "die"]}],
    "tools": [
        {"name": name, "function": f"tests.support.tools_for_agents:{name}", "effect": "pure", "timeout": 5}
        for name in ("add", "raise_error", "die")
    ],
}
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("add", {"a": 1, "b": 2}),
    ("add", {"a": 3, "b": 4}),
    ("raise_error", {"message": CANARY}),
]


class StackWithTelemetry(Stack):
    """Workers with metrics, logs in JSON and traces."""

    traces: TraceServer

    def start(self, pool: str, modules: str | None = None, **environment: str) -> Any:
        """Start a worker with its own port for metrics."""
        self.ports = getattr(self, "ports", {}) | {pool: free_port()}
        exported = {
            "ROBOCO_METRICS_PORT": str(self.ports[pool]),
            "ROBOCO_METRICS_ADDRESS": "127.0.0.1",
            "ROBOCO_LOG_FORMAT": "json",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.traces.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        return super().start(pool, modules, **(exported | environment))

    def metrics(self, pool: str) -> dict[str, float]:
        """Return the metrics of the pool's worker, by name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[pool]}/metrics", timeout=60) as answer:
            families = text_string_to_metric_families(answer.read().decode())
        return {
            " ".join((one.name, *(f"{key}={value}" for key, value in sorted(one.labels.items())))): one.value
            for family in families
            for one in family.samples
        }

    def lines(self, pool: str) -> list[dict[str, Any]]:
        """Return the lines of the pool's log. Raise ValueError if a line is not JSON."""
        return [json.loads(line) for line in self.log(pool).splitlines()]

    def received(self, pool: str, name: str) -> int:
        """Return the number of messages of this name that the pool's workers have received."""
        return self.log(pool).count(f"Task {name}[")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackWithTelemetry]:
    """Yield three workers with telemetry."""
    with TraceServer() as traces:
        stack_with_telemetry = StackWithTelemetry(tmp_path_factory.mktemp("stack"), lease_seconds=8.0, max_attempts=2)
        stack_with_telemetry.traces = traces
        with stack_with_telemetry as started:
            started.model.script(respond)
            yield started


def respond(request: Request) -> Reply:
    if "at length" in request.last_user:
        return Reply(chunks=["word "] * 600, interval=0.05)
    if request.count("assistant") == 0:
        calls = [("die", {})] if "die" in request.last_user else CALLS
        return Reply(text="I add.", tool_calls=calls, usage=(100, 20))
    return Reply(text="It is done now.", interval=0.01, usage=(200, 30))


@pytest.fixture(scope="module")
def task(stack: StackWithTelemetry) -> Task:
    """Return a completed task of two turns and three calls. A Celery producer submitted it."""
    task_id = "task_observed"
    with producer_app(stack.settings) as app:
        arguments = {"task_id": task_id, "team": TEAM, "prompt": f"Go, {CANARY}."}
        app.send_task("roboco.submit", kwargs=arguments, ignore_result=True)
    until(lambda: task_id in {one.task_id for one in stack.orchestrator.tasks()}, 60, "the submission is accepted")
    task = stack.orchestrator.task(task_id)
    assert task.result(60).status == "completed"
    return task


def team() -> Team:
    return parse_team(TEAM)


def test_metrics_of_all_pools_count_the_work_of_a_task(stack: StackWithTelemetry, task: Task) -> None:
    agents = stack.metrics("agents")
    assert agents["roboco_turn_seconds_count model=scripted"] == 2
    assert agents["roboco_first_token_seconds_count model=scripted"] == 2
    assert agents["roboco_tokens_total direction=in model=scripted"] == 300
    assert agents["roboco_tokens_total direction=out model=scripted"] == 50
    assert agents["roboco_open_streams"] == 0
    assert agents["roboco_stream_lag_seconds_count"] >= 2
    assert agents["roboco_queue_wait_seconds_count queue=roboco.agents"] >= 2
    until(
        lambda: stack.metrics("tools").get("roboco_tool_seconds_count outcome=ok tool=add") == 2, 5, "calls are counted"
    )
    tools = stack.metrics("tools")
    assert tools["roboco_tool_seconds_count outcome=error tool=raise_error"] == 1
    assert tools["roboco_queue_wait_seconds_count queue=roboco.tools"] >= 3  # a message is sent again if it waits
    until(
        lambda: stack.metrics("coordinator").get("roboco_tasks_total status=completed") == 1, 60, "the end is counted"
    )
    coordinator = stack.metrics("coordinator")
    assert coordinator["roboco_queue_wait_seconds_count queue=roboco.coordinator"] >= 2
    assert coordinator["roboco_dead_letters"] == 0
    assert coordinator["roboco_queue_length queue=roboco.agents"] == 0
    assert "roboco_open_tasks" not in agents
    exported = json.dumps([stack.metrics(pool) for pool in POOLS])
    assert task.task_id not in exported
    assert CANARY not in exported


def test_refused_messages_are_counted_by_their_celery_task(stack: StackWithTelemetry, task: Task) -> None:
    assert stack.metrics("coordinator")["roboco_refused_messages_total message=roboco.submit"] == 0
    with producer_app(stack.settings) as app:
        app.send_task("roboco.submit", kwargs={"team": TEAM, "prompt": []}, ignore_result=True)
        app.send_task("roboco.send", kwargs={"task_id": "unknown", "message": "x"}, ignore_result=True)
        app.send_task("shop.unknown", queue="roboco.coordinator", ignore_result=True)
    malformed: tuple[object, ...] = ({}, ["roboco.submit"])
    for name in malformed:
        stack.orchestrator._client.lpush("roboco.coordinator", json.dumps(message_named(name)))
    expected = {"roboco.submit": 1, "roboco.send": 1, "other": 3}

    def counted() -> dict[str, float | None]:
        now = stack.metrics("coordinator")
        return {name: now.get(f"roboco_refused_messages_total message={name}") for name in expected}

    until(lambda: counted() == expected, 60, lambda: str(counted()))
    letters = stack.orchestrator.operator.dead_letters()
    assert len(letters) == 4
    assert {"roboco.submit", "shop.unknown"} <= {letter.name for letter in letters}
    assert "roboco.send" not in {letter.name for letter in letters}
    for letter in letters:
        stack.orchestrator.operator.dismiss_dead_letter(letter.letter_id)
    until(lambda: stack.metrics("coordinator")["roboco_dead_letters"] == 0, 60, "deleted dead letters are not counted")


def message_named(name: object) -> dict[str, Any]:
    """Return a message in Redis whose Celery task has this name."""
    return {
        "headers": {"task": name, "id": "malformed"},
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "body": "[[], {}, {}]",
        "properties": {"delivery_tag": "1", "delivery_info": {"exchange": "", "routing_key": "roboco.coordinator"}},
    }


def test_a_stop_is_counted_in_the_interrupt_latency(stack: StackWithTelemetry, task: Task) -> None:
    stopped = stack.orchestrator.run(team(), "Speak at length.")
    for item in stopped.stream():
        if item.type == "text_part_delta":
            break
    until(lambda: stack.metrics("agents")["roboco_open_streams"] == 1, 60, "the stream is open")
    started_at = time.monotonic()
    stopped.stop()
    assert stopped.result(60).status == "cancelled"
    took = time.monotonic() - started_at
    agents = stack.metrics("agents")
    assert agents["roboco_interrupt_latency_seconds_count"] == 1
    assert 0 < agents["roboco_interrupt_latency_seconds_sum"] <= took
    assert agents["roboco_open_streams"] == 0
    until(
        lambda: stack.metrics("coordinator").get("roboco_tasks_total status=cancelled") == 1, 60, "the end is counted"
    )


def test_every_log_line_is_json_and_names_its_task_and_step(stack: StackWithTelemetry, task: Task) -> None:
    for pool in POOLS:
        assert all({"time", "level", "logger", "message", "process"} <= set(line) for line in stack.lines(pool))
    logs = "".join(stack.log(pool) for pool in POOLS)
    assert CANARY not in logs
    raised = [line for line in stack.lines("tools") if "the tool raised" in line["message"]]
    [failed] = [line for line in raised if line["task_id"] == task.task_id]
    assert failed["message"].endswith("\n      raise ValueError(message)\n  ValueError: ...")
    assert (failed["level"], failed["tool"]) == ("WARNING", "raise_error")
    assert (failed["step"], failed["agent"]) == (1, "worker")
    assert "test-key" not in logs


def test_a_task_is_one_trace(stack: StackWithTelemetry, task: Task) -> None:
    trace_id, root = trace_ids(task.task_id)

    def spans() -> list[dict[str, Any]]:
        return [one for one in stack.traces.spans() if one["trace"] == f"{trace_id:032x}"]

    until(lambda: any(one["name"] == "invoke_workflow solo" for one in spans()), 60, "the root span is exported")
    until(lambda: sum(one["name"].startswith("execute_tool") for one in spans()) == 3, 10, "the calls are exported")
    exported = spans()
    names = [one["name"] for one in exported]
    assert (names.count("chat scripted"), names.count("invoke_agent worker"), names.count("submit")) == (2, 2, 1)
    turns = {one["id"] for one in exported if one["name"] == "invoke_agent worker"}
    for one in exported:
        above = {"chat scripted": turns, "invoke_workflow solo": {""}}.get(one["name"], {f"{root:016x}"})
        assert one["above"] in above, one
    assert len({one["process"] for one in exported}) >= 3
    assert CANARY.encode() not in stack.traces.raw

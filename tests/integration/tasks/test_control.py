"""Controls of running tasks, on real workers. The model server checks each request as a provider does."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from roboco import Task, UsageError, parse_team
from roboco.domain.stream.item import TextPartDelta
from tests.support.double_delivery import send_twice
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request, RequestRecord
from tests.support.stack import LONG_LEASE, Stack, until

pytestmark = pytest.mark.workers

SLOW = Reply(chunks=["word "] * 2000, interval=0.02)
TIMEOUT = 60.0
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["once", pytest.param("twice", marks=pytest.mark.slow)])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield three real workers, and once more with every Celery message sent twice."""
    modules = "roboco.workers" if request.param == "once" else "tests.support.double_delivery"
    with Stack(tmp_path_factory.mktemp("stack"), modules=modules, lease_seconds=LONG_LEASE) as started:
        if request.param == "twice":
            send_twice(started.orchestrator._producer)
        yield started


class ScriptedStack:
    """A stack whose model gives the replies of one test."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.prompt = f"prompt {next(_numbers)}"

    def run(self, team: Any, responder: Any, **options: Any) -> Task:
        """Run the team with the replies of the responder, and return the task."""
        self.stack.model.script(responder)
        return self.stack.orchestrator.run(team, self.prompt, **options)

    def requests(self) -> list[RequestRecord]:
        """Return the model calls of this test, in order."""
        return [record for record in self.stack.model.requests if self.prompt in str(record.request.messages)]

    def wait_until_speaking(self, task: Task) -> RequestRecord:
        """Return the newest model call once a follower has received two words of its text."""
        deltas = (item.data.text for item in task.stream() if isinstance(item.data, TextPartDelta))
        assert any(text.count("word ") >= 2 for text in itertools.accumulate(deltas))
        return self.requests()[-1]

    def send(self, name: str, **arguments: Any) -> None:
        """Send a control as another service does, with plain Celery."""
        self.stack.orchestrator._producer.send_task(f"roboco.{name}", kwargs=arguments, queue="roboco.coordinator")


@pytest.fixture
def scripted(stack: Stack) -> Iterator[ScriptedStack]:
    yield ScriptedStack(stack)
    stack.model.script(answer)
    assert stack.model.violations == [], "each tool call has exactly one result in every request"


def team(**fields: Any) -> Any:
    """Return a team of one agent with tools of the tests."""
    tools: list[dict[str, Any]] = [
        {"name": "add", "function": "tests.support.tools_for_agents:add", "effect": "pure", "approval": "required"},
        {
            "name": "wait",
            "function": "tests.support.tools_for_agents:wait_until_cancelled",
            "effect": "pure",
            "timeout": 15,
        },
        {"name": "scope", "function": "tests.support.tools_for_agents:return_scope", "effect": "pure"},
    ]
    agent = {"name": "worker", "prompt": "worker", "tools": ["add", "wait", "scope"]}
    return parse_team({"name": "solo", "agents": [agent], "tools": tools} | fields)


def answer_briefly_on_request(first: Reply) -> Any:
    """Return a responder that gives this reply until the user has written "shorter"."""

    def responder(request: Request) -> Reply:
        return Reply(text="in brief") if request.last_user == "shorter" else first

    return responder


def texts(task: Task) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in task.history()]


def test_interrupt_without_a_message_closes_the_connection_and_the_task_waits(scripted: ScriptedStack) -> None:
    task = scripted.run(team(), answer_briefly_on_request(SLOW))
    record = scripted.wait_until_speaking(task)
    scripted.send("interrupt", task_id=task.task_id, item_id="cut", by="key:1")
    until(lambda: record.client_disconnected_at, TIMEOUT, "the connection is closed")
    result = task.result(TIMEOUT)
    assert (result.status, result.reason) == ("user_turn", "interrupted by the user")
    [_, partial, notice] = task.history()
    assert partial.interrupted
    assert result.text == partial.text
    receipt = task.receipt("cut")
    assert (receipt.applied_at_seq, receipt.effect, receipt.by) == (2, "reply_ended", "key:1")
    assert receipt.closed_at is not None
    assert notice.metadata["by"] == "key:1"
    task.interrupt(item_id="again", timeout=TIMEOUT)
    assert task.receipt("again").effect == "already_waiting"
    task.send("shorter")
    until(lambda: task.status.ended, TIMEOUT, "the task has ended")
    assert texts(task)[3:] == [("user", "shorter"), ("worker", "in brief")]
    assert len(scripted.requests()) == 2


def test_an_interrupt_closes_the_connection_and_keeps_the_partial_text(scripted: ScriptedStack) -> None:
    task = scripted.run(team(), answer_briefly_on_request(SLOW))
    record = scripted.wait_until_speaking(task)
    task.interrupt("shorter", item_id="cut")
    until(lambda: record.client_disconnected_at, TIMEOUT, "the connection is closed")
    assert task.result(TIMEOUT).status == "completed"
    [_, partial, user, brief] = task.history()
    assert partial.metadata["interrupted"] is True
    assert partial.text.startswith("word word ")
    assert (user.text, brief.text) == ("shorter", "in brief")
    receipt = task.receipt("cut")
    assert receipt.applied_at_seq == 2
    assert receipt.seen_at is not None
    assert receipt.closed_at is not None
    assert receipt.chunks_after is not None
    deltas = [item.data for item in task.stream() if isinstance(item.data, TextPartDelta)]
    shown = "".join(delta.text for delta in deltas if delta.step_id == partial.step_id)
    assert shown == partial.text
    assert len(scripted.requests()) == 2


def test_a_stop_closes_the_connection(scripted: ScriptedStack) -> None:
    task = scripted.run(team(), lambda request: SLOW)
    record = scripted.wait_until_speaking(task)
    task.stop("enough", item_id="halt")
    until(lambda: record.client_disconnected_at, TIMEOUT, "the connection is closed")
    assert task.result(TIMEOUT).status == "cancelled"
    assert [step.agent_name for step in task.history()] == ["user", "worker", "orchestrator"]
    assert task.history()[1].text.startswith("word word ")
    assert task.receipt("halt").closed_at is not None


def test_an_interrupt_cancels_a_running_tool_and_closes_its_call(scripted: ScriptedStack) -> None:
    def responder(request: Request) -> Reply:
        if request.last_user == "shorter":
            return Reply(text="in brief")
        return Reply(text="calling", tool_calls=[("wait", {"seconds": 14}), ("scope", {})])

    before = scripted.stack.count_tool_lines()
    task = scripted.run(team(), responder, scope={"start_time": 1})
    until(lambda: scripted.stack.count_tool_lines() > before, TIMEOUT, "the tool runs")
    task.interrupt("shorter")
    assert task.result(TIMEOUT).status == "completed"
    waited, scope = task.history()[2].results
    assert "the user interrupted the work" in str(waited.error) or waited.result == "cancelled", (
        "or the tool ended first"
    )
    assert scope.is_error or scope.result == {"start_time": 1}
    calls = scripted.stack.folder / "calls.txt"
    until(
        lambda: f"{waited.tool_call_id} cancelled True" in calls.read_text(), TIMEOUT, "the tool sees the cancellation"
    )


def test_a_paused_task_runs_one_step_and_continues_after_resume(scripted: ScriptedStack) -> None:
    pair = team(agents=[{"name": name, "prompt": name} for name in ("one", "two", "three")])

    paused = threading.Event()
    task = scripted.run(pair, lambda request: Reply(text=request.system, held_until=paused))
    until(scripted.requests, TIMEOUT, "the model server has a request")
    task.pause()
    paused.set()
    assert task.result(TIMEOUT).status == "paused"
    before = len(task.history())
    assert before == 2, "the running turn ends before the pause"
    scripted.send("step", task_id=task.task_id, item_id="one-more")
    until(lambda: len(task.history()) == before + 1, TIMEOUT, "one step is committed")
    assert task.result(TIMEOUT).status == "paused"
    task.resume()
    until(lambda: task.summary().status.ended, TIMEOUT, "the task has ended")
    assert texts(task)[1:] == [(name, name) for name in ("one", "two", "three")]


def test_client_tools_and_approvals_hold_no_worker(scripted: ScriptedStack) -> None:
    calls: list[Any] = [("client_ask", {"q": 1}), ("add", {"a": 1, "b": 2}), ("client_ask", {"q": 2})]

    def responder(request: Request) -> Reply:
        return Reply(text="done") if request.tool_results else Reply(text="calling", tool_calls=calls)

    ask = {"name": "client_ask", "description": "asks the user", "input_schema": {"type": "object"}}
    task = scripted.run(team(), responder, client_tools=[ask])
    assert task.result(TIMEOUT).status == "approval"
    first, added, second = task.history()[1].calls
    scripted.send("answer", task_id=task.task_id, call_id=second.id, result={"n": 2})
    scripted.send("approve", task_id=task.task_id, call_id=added.id, args={"a": 40, "b": 2})
    until(lambda: task.summary().status == "client_tool_turn", TIMEOUT, "the task waits for the client alone")
    with pytest.raises(UsageError, match="answered before, in another way"):
        task.deny(added.id)
    task.answer(first.id, status="declined", error="not now")
    until(lambda: task.summary().status.ended, TIMEOUT, "the task has ended")
    results = task.history()[2].results
    assert [(one.result, one.error) for one in results] == [
        (None, "declined by the client: not now"),
        (42, None),
        ({"n": 2}, None),
    ]
    assert "(a person changed the arguments" in str(scripted.requests()[-1].request.messages)

"""What a person or a service does to a running task, on real workers: the model server watches what becomes of it."""

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from roboco import Task, UsageError, parse_team
from roboco.domain.session.session import SessionMessage
from roboco.domain.stream.item import TextPartDelta
from tests.support.double_delivery import send_twice
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply, Request, RequestRecord
from tests.support.stack import LONG_LEASE, Stack, until

pytestmark = pytest.mark.workers

SLOW = Reply(chunks=["word "] * 2000, interval=0.02)
SECONDS = 20.0
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["once", "twice"])
def stack(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Three real workers; and once more with every Celery message sent twice."""
    modules = "roboco.workers" if request.param == "once" else "tests.support.double_delivery"
    with Stack(tmp_path_factory.mktemp("stack"), modules=modules, lease_seconds=LONG_LEASE) as started:
        if request.param == "twice":
            send_twice(started.orchestrator._producer)
        yield started


class Scripted:
    """A stack whose model says what a test wants: each request is checked as a provider does."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.prompt = f"prompt {next(_numbers)}"

    def run(self, team: Any, responder: Any, **wished: Any) -> Task:
        """Run the team, answered by the responder."""
        self.stack.model.script(responder)
        return self.stack.orchestrator.run(team, self.prompt, **wished)

    def requests(self) -> list[RequestRecord]:
        """The model calls of this test, in order."""
        return [record for record in self.stack.model.requests if self.prompt in str(record.request.messages)]

    def speaking(self, task: Task) -> RequestRecord:
        """The newest model call, once followers have two words of it, which its step will keep."""
        deltas = (item.data.text for item in task.stream() if isinstance(item.data, TextPartDelta))
        assert any(said.count("word ") >= 2 for said in itertools.accumulate(deltas))
        return self.requests()[-1]

    def send(self, name: str, **arguments: Any) -> None:
        """What another service does, over plain Celery."""
        self.stack.orchestrator._producer.send_task(f"roboco.{name}", kwargs=arguments, queue="roboco.coordinator")


@pytest.fixture
def scripted(stack: Stack) -> Iterator[Scripted]:
    yield Scripted(stack)
    stack.model.script(answer)
    assert stack.model.violations == [], "each tool call has exactly one result, whatever happened"


def team(**fields: Any) -> Any:
    """A team of one agent with tools of the tests."""
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


def brief_when_told(first: Reply) -> Any:
    """A model that says this until the user has said "shorter"."""

    def responder(request: Request) -> Reply:
        return Reply(text="in brief") if request.last_user == "shorter" else first

    return responder


def texts(task: Task) -> list[tuple[str, str]]:
    return [(step.agent_name, step.text) for step in task.history()]


@pytest.mark.parametrize("over_celery", [False, True])
def test_an_interrupt_closes_the_connection_and_keeps_what_was_said(scripted: Scripted, over_celery: bool) -> None:
    task = scripted.run(team(), brief_when_told(SLOW))
    record = scripted.speaking(task)
    if over_celery:
        scripted.send("interrupt", task_id=task.task_id, message="shorter", item_id="cut")
    else:
        task.interrupt("shorter", item_id="cut")
    until(lambda: record.client_disconnected_at, SECONDS, "the connection is closed")
    assert task.result(SECONDS).status == "completed"
    [_, spoken, user, brief] = task.history()
    assert spoken.metadata["interrupted"] is True
    assert spoken.text.startswith("word word ")
    assert (user.text, brief.text) == ("shorter", "in brief")
    receipt = task.receipt("cut")
    assert receipt.applied_at_seq == 2
    assert receipt.seen_at is not None
    assert receipt.closed_at is not None
    assert receipt.chunks_after is not None
    deltas = [item.data for item in task.stream() if isinstance(item.data, TextPartDelta)]
    shown = "".join(delta.text for delta in deltas if delta.step_id == spoken.step_id)
    assert shown == spoken.text
    assert len(scripted.requests()) == 2


def test_a_silent_model_is_cut_off_too(scripted: Scripted) -> None:
    task = scripted.run(team(), brief_when_told(Reply(text="too late", delay=30)))
    until(scripted.requests, SECONDS, "the model is asked")
    [record] = scripted.requests()
    task.interrupt("shorter")
    until(lambda: record.client_disconnected_at, SECONDS, "the connection is closed")
    assert task.result(SECONDS).status == "completed"
    assert texts(task)[1:] == [("worker", ""), ("user", "shorter"), ("worker", "in brief")]


def test_a_stop_closes_the_connection(scripted: Scripted) -> None:
    task = scripted.run(team(), lambda request: SLOW)
    record = scripted.speaking(task)
    task.stop("enough", item_id="halt")
    until(lambda: record.client_disconnected_at, SECONDS, "the connection is closed")
    assert task.result(SECONDS).status == "cancelled"
    assert [step.agent_name for step in task.history()] == ["user", "worker", "orchestrator"]
    assert task.history()[1].text.startswith("word word ")
    assert task.receipt("halt").closed_at is not None


def test_a_stop_before_the_start_is_honoured(scripted: Scripted) -> None:
    scripted.send("stop", task_id=f"early-{scripted.prompt[7:]}", reason="never mind", item_id="early")
    name = f"early-{scripted.prompt[7:]}"
    files = scripted.stack.orchestrator._engine.files
    until(lambda: files.names(f"{name}/inbox/"), SECONDS, "the stop is accepted")
    task = scripted.run(team(), lambda request: SLOW, task_id=name)
    assert task.result(SECONDS).status == "cancelled"
    assert not scripted.requests()


def test_a_running_tool_is_told_and_its_call_is_closed(scripted: Scripted) -> None:
    def responder(request: Request) -> Reply:
        if request.last_user == "shorter":
            return Reply(text="in brief")
        return Reply(text="calling", tool_calls=[("wait", {"seconds": 14}), ("scope", {})])

    before = scripted.stack.count_tool_lines()
    task = scripted.run(team(), responder, scope={"start_time": 1})
    until(lambda: scripted.stack.count_tool_lines() > before, SECONDS, "the tool runs")
    task.interrupt("shorter")
    assert task.result(SECONDS).status == "completed"
    waited, scope = task.history()[2].results
    assert "the user interrupted the work" in str(waited.error) or waited.result == "cancelled", "it ended first"
    assert scope.is_error or scope.result == {"start_time": 1}
    calls = scripted.stack.folder / "calls.txt"
    until(lambda: f"{waited.tool_call_id} cancelled True" in calls.read_text(), SECONDS, "the tool is told")


def test_pause_step_and_resume(scripted: Scripted) -> None:
    pair = team(agents=[{"name": name, "prompt": name} for name in ("one", "two", "three")])

    paused = threading.Event()
    task = scripted.run(pair, lambda request: Reply(text=request.system, held_until=paused))
    until(scripted.requests, SECONDS, "the model is asked")
    task.pause()
    paused.set()
    assert task.result(SECONDS).status == "paused"
    before = len(task.history())
    assert before == 2, "what was being done came to its end"
    scripted.send("step", task_id=task.task_id, item_id="one-more")
    until(lambda: len(task.history()) == before + 1, SECONDS, "a step is made")
    assert task.result(SECONDS).status == "paused"
    task.resume()
    until(lambda: task.summary().status.ended, SECONDS, "it goes on")
    assert texts(task)[1:] == [(name, name) for name in ("one", "two", "three")]


def test_client_tools_and_approvals_hold_no_worker(scripted: Scripted) -> None:
    calls: list[Any] = [("client_ask", {"q": 1}), ("add", {"a": 1, "b": 2}), ("client_ask", {"q": 2})]

    def responder(request: Request) -> Reply:
        return Reply(text="done") if request.tool_results else Reply(text="calling", tool_calls=calls)

    ask = {"name": "client_ask", "description": "asks the user", "input_schema": {"type": "object"}}
    task = scripted.run(team(), responder, client_tools=[ask])
    assert task.result(SECONDS).status == "approval"
    first, added, second = task.history()[1].calls
    scripted.send("answer", task_id=task.task_id, call_id=second.id, result={"n": 2})
    scripted.send("approve", task_id=task.task_id, call_id=added.id, args={"a": 40, "b": 2})
    until(lambda: task.summary().status == "client_tool_turn", SECONDS, "only the client is waited for")
    with pytest.raises(UsageError, match="answered before, in another way"):
        task.deny(added.id)
    task.answer(first.id, status="declined", error="not now")
    until(lambda: task.summary().status.ended, SECONDS, "it goes on")
    results = task.history()[2].results
    assert [(one.result, one.error) for one in results] == [
        (None, "declined by the client: not now"),
        (42, None),
        ({"n": 2}, None),
    ]
    assert "(a person changed the arguments" in str(scripted.requests()[-1].request.messages)


def test_goals_are_achieved_or_the_task_says_that_they_are_not(scripted: Scripted) -> None:
    def responder(request: Request) -> Reply:
        match request.count("assistant"):
            case 0:
                return Reply(text="done, I think")
            case 1:
                return Reply(tool_calls=[("achieve_number", {"n": "seven"})])
            case 2:
                return Reply(tool_calls=[("achieve_number", {"n": 7})])
            case _:
                return Reply(text="done")

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    goal = {"name": "number", "description": "the number", "schema": schema}
    task = scripted.run(team(), responder, goals=[goal])
    assert task.result(SECONDS).status == "completed"
    [achieved] = task.session().goals
    assert (achieved.status, achieved.outcome) == ("achieved", {"n": 7})
    lazy = scripted.run(team(), lambda request: Reply(text="no"), goals=[goal])
    assert lazy.result(SECONDS).status == "goals_failed"


def test_a_sub_task_is_a_task_of_its_own(scripted: Scripted) -> None:
    def responder(request: Request) -> Reply:
        if request.system == "helper":
            return Reply(text=f"found: {request.last_user}")
        if request.tool_results:
            return Reply(text=f"I was told {request.tool_results[0][1]}")
        return Reply(tool_calls=[("delegate", {"team": "helpers", "prompt": f"look up {scripted.prompt}"})])

    helpers = {"name": "helpers", "agents": [{"name": "helper", "prompt": "helper"}]}
    lead = {"name": "worker", "prompt": "worker", "delegates": ["helpers"]}
    task = scripted.run(team(agents=[lead], teams={"helpers": helpers}), responder)
    assert task.result(SECONDS).status == "completed"
    [result] = task.history()[2].results
    child = scripted.stack.orchestrator.task(result.result["task_id"])
    assert child.history()[0].parent_id == task.history()[1].step_id
    assert child.session().lineage.parent_task_id == task.task_id
    assert result.result["text"] == f"found: look up {scripted.prompt}"


def test_a_fork_goes_its_own_way(scripted: Scripted) -> None:
    task = scripted.run(team(), lambda request: Reply(text=f"answer to {request.last_user}"))
    task.result(SECONDS)
    fork = task.fork(1, "and now?")
    assert fork.result(SECONDS).status == "completed"
    assert texts(fork) == [*texts(task), ("user", "and now?"), ("worker", "answer to and now?")]
    lineage = fork.session().lineage
    assert (lineage.forked_from_task_id, lineage.forked_from_seq) == (task.task_id, 1)
    assert len(task.history()) == 2


def test_who_polls_deltas_holds_what_is_there(scripted: Scripted) -> None:
    task = scripted.run(team(), brief_when_told(SLOW))
    messages: dict[int, SessionMessage] = {}
    token = ""
    lengths: list[int] = []
    while True:
        ended = task.summary().status.ended
        new = task.delta(token)
        token = new.continuation_token
        if new.rewind_to is not None:
            messages = {at: message for at, message in messages.items() if at < new.rewind_to}
        messages |= new.messages_by_idx
        if 1 in messages and len(messages[1].text) not in lengths:
            lengths.append(len(messages[1].text))
        if len(lengths) == 5:
            task.interrupt("shorter", item_id="once")
        if ended:
            break
    whole = task.session()
    assert [messages[at] for at in sorted(messages)] == whole.messages
    assert [message.status for message in whole.messages] == ["completed", "cancelled", "completed", "completed"]
    assert lengths == sorted(lengths), "the message grows"


def test_what_is_refused_is_told_on_the_channel(scripted: Scripted) -> None:
    task = scripted.run(team(), lambda request: Reply(text="done"))
    task.result(SECONDS)
    for act in (task.pause, task.resume, task.step, lambda: task.interrupt("x"), lambda: task.deny("tc_1")):
        with pytest.raises(UsageError, match="has ended"):
            act()
    with pytest.raises(UsageError, match=r"reason: .*valid string"):
        task.stop(5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"goals: .*at most 5"):
        task.send("x", goals=[{}] * 6)

"""Workers killed, suspended for longer than a lease, or terminated, while a user acts on a task."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from roboco import Task, Team, parse_team
from roboco.domain.history.step import verify_chain
from roboco.domain.ids import sub_task_id
from tests.faults.moments import OUTCOME_TIMEOUT, Moment, Victim, only_worker_of
from tests.support.journeys import GRAPH, follow
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import POOLS, until

pytestmark = pytest.mark.workers

PREPARED = threading.Event()
"""Set once the preparation of the user's action is done."""
ASK = {"name": "client_ask", "description": "asks", "input_schema": {"type": "object"}}
TEAM = parse_team(
    {
        "name": "solo",
        "agents": [{"name": "worker", "prompt": "worker", "tools": ["add"]}],
        "tools": [
            {"name": "add", "function": "tests.support.tools_for_agents:add", "effect": "pure", "approval": "required"},
        ],
    }
)
DELEGATING = parse_team(
    {
        "name": "lead",
        "agents": [{"name": "worker", "prompt": "worker", "delegates": ["helpers"]}],
        "teams": {"helpers": {"name": "helpers", "agents": [{"name": "helper", "prompt": "helper"}]}},
    }
)


def reply_at_length(request: Request) -> Reply:
    """Reply word by word, until the user asks for a shorter reply."""
    if request.last_user == "shorter":
        return Reply(text="in brief")
    return Reply(chunks=["word "] * 2000, interval=0.02)


def call_tools(request: Request) -> Reply:
    """Call a client tool and a tool that needs approval, then reply with their results."""
    if request.tool_results:
        return Reply(text=" and ".join(result for _, result in request.tool_results))
    return Reply(text="calling", tool_calls=[("client_ask", {}), ("add", {"a": 1, "b": 2})])


def delegate_work(request: Request) -> Reply:
    """Delegate the work to another team, once a pause of the task is requested."""
    if request.system == "helper":
        return Reply(text="found it")
    if request.tool_results:
        return Reply(text="I have the result")
    calls = [("delegate", {"team": "helpers", "prompt": "look it up"})]
    return Reply(text="wait", held_until=PREPARED, tool_calls=calls)


@dataclass(frozen=True)
class ControlCase:
    """A task, a user's action on it, and the expected outcome."""

    name: str
    script: Callable[[Request], Reply]
    ready: Callable[[Task], bool]
    perform: Callable[[Task], object]
    final_status: str
    check: Callable[[Task], None]
    prepare: Callable[[Task], object] = lambda task: None
    team: Team = TEAM


def _check_stopped(task: Task) -> None:
    spoken = [step for step in task.history() if step.agent_name == "worker" and step.text != "in brief"]
    assert all(step.interrupted and set(step.text.split()) <= {"word"} for step in spoken)
    assert len(spoken) <= 1


def _check_interrupted(task: Task) -> None:
    _check_stopped(task)
    assert [step.text for step in task.history() if step.agent_name == "user"] == ["go", "shorter"]
    assert task.history()[-1].text == "in brief"


def _check_answered(task: Task) -> None:
    results = task.history()[2].results
    assert [result.result for result in results] == ["seven", 3]
    assert task.history()[-1].text == "seven and 3"
    assert len(task.history()) == 4


def _answer_both(task: Task) -> None:
    asked, added = task.history()[1].calls
    task.answer(asked.id, "seven")
    task.approve(added.id)


def _has_spoken(task: Task) -> bool:
    return any(message.text for message in task.session().messages[1:])


def _check_delegated(task: Task) -> None:
    [result] = task.history()[2].results
    assert result.result["text"] == "found it"
    assert task.history()[-1].text == "I have the result"


def _is_paused(task: Task) -> bool:
    return task.summary().status == "paused"


INTERRUPT = ControlCase(
    "interrupt", reply_at_length, _has_spoken, lambda task: task.interrupt("shorter"), "completed", _check_interrupted
)
STOP = ControlCase("stop", reply_at_length, _has_spoken, lambda task: task.stop(), "cancelled", _check_stopped)
ANSWER = ControlCase(
    "answer", call_tools, lambda task: task.summary().status == "approval", _answer_both, "completed", _check_answered
)

RESUME = ControlCase(
    "resume",
    delegate_work,
    _is_paused,
    lambda task: task.resume(),
    "completed",
    _check_delegated,
    prepare=lambda task: task.pause(),
    team=DELEGATING,
)

CASES: tuple[tuple[str, ControlCase, Moment], ...] = (
    ("agents", INTERRUPT, Moment("cancellation requested", GRAPH, script="cancel_request")),
    ("agents", INTERRUPT, Moment("interrupted step appended, not committed", GRAPH, script="commit")),
    ("agents", INTERRUPT, Moment("committed, coordinator not notified", GRAPH, message="roboco.advance")),
    ("agents", STOP, Moment("cancellation requested", GRAPH, script="cancel_request")),
    ("coordinator", INTERRUPT, Moment("message appended, not committed", GRAPH, script="commit")),
    ("coordinator", INTERRUPT, Moment("turn recorded, not dispatched", GRAPH, message="roboco.turn")),
    ("coordinator", STOP, Moment("stop appended, not committed", GRAPH, script="commit")),
    ("coordinator", ANSWER, Moment("approved call recorded, not dispatched", GRAPH, message="roboco.tool")),
    ("coordinator", ANSWER, Moment("results appended, not committed", GRAPH, script="commit")),
    ("coordinator", RESUME, Moment("turn recorded, not dispatched", GRAPH, message="roboco.turn")),
    ("coordinator", RESUME, Moment("sub-task created, not dispatched", GRAPH, script="create", answered=True)),
    ("coordinator", RESUME, Moment("sub-task's result stored, not in the inbox", GRAPH, script="inbox_add")),
    ("tools", ANSWER, Moment("approved call claimed", GRAPH, script="claim_call", answered=True)),
)
DISRUPTIONS = ("SIGKILL", "SIGSTOP, SIGCONT", "SIGTERM")


class ControlScenario:
    """A task, a user's action on it, and the disruption of a worker."""

    def __init__(self, victim: Victim, act: ControlCase, moment: Moment) -> None:
        self._stack, self._victim, self._act = victim.stack, victim, act
        stack = victim.stack
        PREPARED.clear()
        stack.model.script(act.script)
        self.task = stack.orchestrator.run(act.team, "go", client_tools=[ASK])
        act.prepare(self.task)
        PREPARED.set()
        until(lambda: act.ready(self.task), OUTCOME_TIMEOUT, f"the task is ready for: {act.name}")
        self._held = moment.hold(victim.gate(moment))
        act.perform(self.task)
        assert self._held.reached.wait(OUTCOME_TIMEOUT), f"the run does not reach: {moment.name}"

    def disrupt(self, disruption: str) -> None:
        """Disrupt the worker, and check the outcome."""
        if disruption == "SIGKILL":
            self._victim.kill(self._held)
        elif disruption == "SIGTERM":
            self._victim.terminate(self._held)
        else:
            with self._victim.suspended(self._held):
                self.check()
            self._victim.kill_zombies()
        self.check()

    def check(self) -> None:
        """Assert the expected end of the task, and that a follower receives all of it."""
        until(lambda: self.task.summary().status.ended, OUTCOME_TIMEOUT, self._describe_tasks)
        assert self.task.summary().status == self._act.final_status
        self._act.check(self.task)
        history = self.task.history()
        transcript = follow(self.task)
        assert transcript.finals == list(range(len(history)))
        assert transcript.texts == {step.step_id: step.text for step in history if step.by_agent and step.text}
        engine = self._stack.orchestrator._engine
        assert verify_chain(engine.workspace.histories.lines(self.task.task_id)) == len(history)
        assert [message.text for message in self.task.session().messages] == [step.text for step in history]
        assert self._stack.model.violations == []

    def _describe_tasks(self) -> str:
        """Describe the pending work of the task and of its sub-tasks."""
        calls = [call for step in self.task.history() for call in step.calls if call.tool_name == "delegate"]
        tasks = [self.task.task_id, *(sub_task_id(self.task.task_id, call.id) for call in calls)]
        return f"the task ends: {self._act.name}; " + "; ".join(map(self._stack.describe_task, tasks))


@pytest.fixture(scope="module")
def victim(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Victim]]:
    """The only worker of a pool."""
    with only_worker_of(request.param, tmp_path_factory.mktemp("stack")) as victim:
        yield request.param, victim


@pytest.mark.parametrize(
    ("victim", "disruption"),
    [
        pytest.param(pool, disruption, marks=() if number == index else pytest.mark.nightly)
        for number, pool in enumerate(POOLS)
        for index, disruption in enumerate(DISRUPTIONS)
    ],
    indirect=["victim"],
)
def test_a_user_action_survives_its_worker(victim: tuple[str, Victim], disruption: str) -> None:
    pool, worker = victim
    cases = [(act, moment) for where, act, moment in CASES if where == pool]
    assert cases
    for act, moment in cases:
        ControlScenario(worker, act, moment).disrupt(disruption)

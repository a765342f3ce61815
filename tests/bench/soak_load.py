"""The load of the soak: a constant number of open tasks of several teams, and the checks of ended tasks."""

import random
import time
from collections import Counter
from dataclasses import dataclass, field

from roboco import RobocoError, Task, Team, TransientError, parse_team
from roboco.domain.history.part import ToolResult
from roboco.domain.history.step import verify_chain
from roboco.lab.transcript import Transcript
from tests.support.journeys import GRAPH, PARALLEL, SEQUENTIAL, StackJourney, answer, shape
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack

CHUNK_INTERVAL = 0.12
"""Seconds between two chunks of a reply: a turn takes one to two seconds."""

CLERK_TEAM = parse_team(
    {
        "name": "clerks",
        "agents": [{"name": "clerk", "prompt": "clerk", "tools": ["append_soon"]}],
        "tools": [{"name": "append_soon", "function": "tests.support.tools_for_agents:append_soon", "timeout": 20}],
    }
)
CALLS = 2


def scripted_reply(request: Request) -> Reply:
    """Return the model's reply: a clerk makes two irreversible calls; other agents reply as in the tests."""
    if not request.system.startswith("clerk"):
        reply = answer(request)
        return Reply(text=reply.text, tool_calls=reply.tool_calls, interval=CHUNK_INTERVAL)
    if request.count("assistant"):
        return Reply(text="Both lines were asked for.", interval=CHUNK_INTERVAL)
    return Reply(text="I append.", tool_calls=[("append_soon", {})] * CALLS, interval=CHUNK_INTERVAL)


def name_task_in_prompts(team: Team) -> Team:
    """Return the team with the task's id in its prompts, so that each model request names its task."""
    agents = [agent.model_copy(update={"prompt": agent.prompt + " {{ task.id }}"}) for agent in team.agents]
    return team.model_copy(update={"agents": tuple(agents)})


@dataclass
class Tally:
    """The counts and the errors of ended tasks."""

    tasks: int = 0
    steps: int = 0
    restarts: int = 0
    unknown: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


class Load:
    """A source of tasks that keeps a constant number of them open, and checks ended tasks."""

    def __init__(self, stack: Stack, concurrency: int, rng: random.Random) -> None:
        self.tally = Tally()
        self.open: dict[str, float] = {}
        self._stack = stack
        self._concurrency = concurrency
        self._rng = rng
        self._journeys: dict[str, StackJourney | None] = {}
        self._accepted: set[str] = set()
        self._count = 0

    def step(self, more: bool) -> None:
        """Check ended tasks, retry failed submissions and, with `more`, submit new tasks."""
        for task_id in list(self.open):
            if task_id not in self._accepted:
                self._submit(task_id)
            elif self._finished(task_id):
                del self.open[task_id]
        while more and len(self.open) < self._concurrency:
            self._count += 1
            task_id = f"soak-{self._count}"
            self._journeys[task_id] = self._rng.choice([GRAPH, PARALLEL, SEQUENTIAL, None])
            self.open[task_id] = time.time()
            self._submit(task_id)

    def _submit(self, task_id: str) -> None:
        """Submit the task. If a server is down, a later step tries again, as a client would."""
        journey = self._journeys[task_id]
        team, prompt = (journey.team, journey.prompt) if journey else (CLERK_TEAM, "Go.")
        try:
            self._stack.orchestrator.run(name_task_in_prompts(team), prompt, task_id=task_id)
        except TransientError:
            return
        self._accepted.add(task_id)

    def _finished(self, task_id: str) -> bool:
        """Return True if the task has ended and was checked; False if a server is down."""
        task = Task(task_id, self._stack.orchestrator._engine, self._stack.orchestrator._follower, self._stack.settings)
        try:
            if not task.summary().status.ended:
                return False
            self._check(task)
        except TransientError:
            return False
        return True

    def _check(self, task: Task) -> None:
        transcript = Transcript()
        for item in task.stream():
            transcript.take(item)
        tally, history, journey = self.tally, task.history(), self._journeys[task.task_id]
        tally.tasks += 1
        tally.steps += len(history)
        tally.restarts += sum(step.metadata.get("attempt", 1) > 1 for step in history)
        if task.summary().status != "completed":
            tally.failed.append(f"{task.task_id}: {task.summary().reason}")
            return
        if transcript.finals != list(range(len(history))):
            tally.lost.append(f"{task.task_id}: a follower is shown the steps {transcript.finals}")
        try:
            verify_chain(self._stack.orchestrator._engine.workspace.histories.lines(task.task_id))
        except RobocoError as error:
            tally.lost.append(f"{task.task_id}: {error}")
        if journey is None:
            self._check_lines(task.task_id, [result for step in history for result in step.results])
        elif (found := shape(history)) != journey.expected:
            kind = tally.doubled if len(found) > len(journey.expected) else tally.lost
            kind.append(f"{task.task_id}: {found}")

    def _check_lines(self, task_id: str, results: list[ToolResult]) -> None:
        path = self._stack.folder / "lines.txt"
        lines = Counter(path.read_text().split() if path.exists() else ())
        if len(results) != CALLS:
            self.tally.lost.append(f"{task_id}: {len(results)} results")
        for result in results:
            self.tally.unknown += result.is_error
            if lines[result.tool_call_id] > 1:
                self.tally.doubled.append(f"{task_id}: {lines[result.tool_call_id]} lines of {result.tool_call_id}")
            if not result.is_error and lines[result.tool_call_id] == 0:
                self.tally.lost.append(f"{task_id}: no line of {result.tool_call_id}")
            if result.is_error and "outcome unknown" not in str(result.error):
                self.tally.lost.append(f"{task_id}: {result.error}")

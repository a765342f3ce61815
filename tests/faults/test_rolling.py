"""A rolling deploy under load: every worker is replaced while 50 tasks run, without an effect on them."""

import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from roboco import Task, parse_team
from roboco.domain.history.step import verify_chain
from roboco.lab.transcript import Transcript
from tests.faults.moments import SHUTDOWN_TIMEOUT
from tests.support.journeys import follow
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import POOLS, Stack

pytestmark = pytest.mark.workers

TASKS = 50
CLERKS = parse_team(
    {
        "name": "clerks",
        "agents": [
            {
                "name": "clerk",
                "prompt": "clerk",
                "tools": ["add", "append_soon"],
                "context": {"strategy": "recent", "steps": 500},
            }
        ],
        "tools": [
            {"name": "add", "function": "tests.support.tools_for_agents:add", "effect": "pure"},
            {"name": "append_soon", "function": "tests.support.tools_for_agents:append_soon", "timeout": 20},
        ],
        "limits": {"max_steps": 1000},
    }
)


class ClerkScript:
    """A model script that calls one tool after another until `finish` is set."""

    def __init__(self) -> None:
        self.finish = threading.Event()

    def __call__(self, request: Request) -> Reply:
        place = request.count("assistant")
        if place > 1 and self.finish.is_set():
            return Reply(text="All is done.", interval=0.05)
        call = ("append_soon", {}) if place == 1 else ("add", {"a": place, "b": 1})
        return Reply(text="I do the next thing.", tool_calls=[call], interval=0.6)


def test_a_rolling_deploy_under_load_repeats_no_turn(tmp_path: Path) -> None:
    """One worker of each pool after another is replaced. The new one consumes before the old one gets SIGTERM."""
    workers = [f"{pool}-{number}" for number in (1, 2) for pool in POOLS]
    clerks = ClerkScript()
    with Stack(tmp_path, workers, lease_seconds=10.0, agents_concurrency=30) as stack:
        stack.model.script(clerks)
        tasks = [stack.orchestrator.run(CLERKS, f"Task {number}.") for number in range(TASKS)]
        with ThreadPoolExecutor(TASKS) as threads:
            followed = [threads.submit(follow, task) for task in tasks]
            replace_all(stack, clerks, tasks)
            transcripts = [one.result(60) for one in followed]
        for task, transcript in zip(tasks, transcripts, strict=True):
            assert task.result(60).status == "completed", task.summary().reason
            check_history(stack, task, transcript)
        check_requests(stack, tasks)
        check_lines(stack, tasks)
        assert stack.model.violations == []


def replace_all(stack: Stack, clerks: ClerkScript, tasks: list[Task]) -> None:
    """Replace every worker while all tasks run. Let the tasks finish once the last old worker has ended."""
    try:
        stack.model.wait_for(lambda records: len({one.request.last_user for one in records}) == TASKS, 60)
        leaving = [name for old, new in ((1, 3), (2, 4)) for name in replace(stack, old, new)]
        for name in leaving:
            assert stack.workers[name].process.wait(SHUTDOWN_TIMEOUT) == 0, stack.log(name)[-3000:]
        assert not any(task.summary().status.ended for task in tasks), "all run while everything is replaced"
    finally:
        clerks.finish.set()


def replace(stack: Stack, old: int, new: int) -> list[str]:
    """Start a new worker of each pool, and send SIGTERM to the old one. Return the names of the old ones."""
    for pool in POOLS:
        stack.start(f"{pool}-{new}")
    for pool in POOLS:
        stack.wait_ready(f"{pool}-{new}")
    for pool in POOLS:
        stack.kill(f"{pool}-{old}", signal.SIGTERM)
    return [f"{pool}-{old}" for pool in POOLS]


def check_history(stack: Stack, task: Task, transcript: Transcript) -> None:
    """Assert that every step exists once, in order, and from the first attempt."""
    steps = task.history()
    assert [step.seq for step in steps] == list(range(len(steps)))
    assert verify_chain(stack.orchestrator._engine.workspace.histories.lines(task.task_id)) == len(steps)
    assert transcript.finals == list(range(len(steps)))
    assert "event_turn_restart" not in transcript.types
    results = [result for step in steps for result in step.results]
    assert [result.result for result in results if not result.is_error] == [
        "appended" if place == 1 else place + 1 for place in range(len(results))
    ]


def check_requests(stack: Stack, tasks: list[Task]) -> None:
    """Assert that the model received one request for each turn of the histories."""
    asked = Counter((one.request.last_user, one.request.count("assistant")) for one in stack.model.requests)
    turns = {
        (f"Task {number}.", place)
        for number, task in enumerate(tasks)
        for place in range(sum(step.by_agent for step in task.history()))
    }
    assert set(asked) == turns
    assert {turn: times for turn, times in asked.items() if times > 1} == {}


def check_lines(stack: Stack, tasks: list[Task]) -> None:
    """Assert that the irreversible tool had its effect once for each task."""
    lines = Counter(Path(stack.folder / "lines.txt").read_text().split())
    assert len(lines) == len(tasks)
    assert set(lines.values()) == {1}

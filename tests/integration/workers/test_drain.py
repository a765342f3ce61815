"""A worker that gets SIGTERM: its turns and calls end in time, or continue on another worker at once.

No lease expires here: it outlasts the test. So work continues only if the worker has handed it over.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from roboco import Task, parse_team
from roboco.domain.stream.event import TurnRestarted
from roboco.lab.transcript import Transcript
from tests.faults.moments import SHUTDOWN_TIMEOUT
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]

OUTLASTING = 600.0
SPEAKER = parse_team({"name": "speaker", "agents": [{"name": "speaker", "prompt": "Speak."}]})


@contextmanager
def stack_of(folder: Path, *workers: str, **changes: Any) -> Iterator[Stack]:
    """Yield a stack whose leases and redeliveries outlast the test."""
    settings = {"lease_seconds": OUTLASTING, "drain_timeout": 0.5} | changes
    with Stack(folder, ["coordinator", *workers], **settings) as stack:
        yield stack


APPENDER = parse_team(
    {
        "name": "callers",
        "agents": [{"name": "clerk", "prompt": "clerk", "tools": ["append_line"]}],
        "tools": [{"name": "append_line", "function": "tests.support.tools_for_agents:append_line", "timeout": 300}],
    }
)


def append_once(request: Request) -> Reply:
    return Reply(text="done") if request.count("assistant") else Reply(tool_calls=[("append_line", {"when": "soon"})])


def replace_worker(stack: Stack, name: str, begun: Any) -> None:
    """Start another worker of the pool, and terminate this one. Assert that it ends with 0."""
    until(begun, 60, "the work has begun")
    other = f"{name}-other"
    stack.start(other)
    stack.wait_ready(other)
    stack.kill(name, signal.SIGTERM)
    assert stack.workers[name].process.wait(SHUTDOWN_TIMEOUT) == 0, stack.log(name)[-3000:]


def follow(task: Task) -> Transcript:
    """Return the transcript of the whole task."""
    transcript = Transcript()
    for item in task.stream():
        transcript.take(item)
    return transcript


class SlowOnce:
    """A model script whose first reply takes minutes, from its first chunk on or before it."""

    def __init__(self, stack: Stack, *, silent: bool = False) -> None:
        self._stack = stack
        self._silent = silent

    def __call__(self, request: Request) -> Reply:
        if len(self._stack.model.requests) > 1:
            return Reply(text="all is said")
        return Reply(text="word " * 200, held_until=threading.Event() if self._silent else None, interval=1)

    def begun(self) -> bool:
        """Return True if the slow reply has begun, or was asked for."""
        records = self._stack.model.requests
        return len(records) == 1 and (self._silent or records[0].chunks_sent > 1)


def test_a_turn_that_has_emitted_text_is_restarted_on_another_worker(tmp_path: Path) -> None:
    """The attempt does not count: with the only attempt that is allowed, the task still completes."""
    with stack_of(tmp_path, "agents", max_attempts=1) as stack:
        script = SlowOnce(stack)
        stack.model.script(script)
        task = stack.orchestrator.run(SPEAKER, "Speak.")
        replace_worker(stack, "agents", script.begun)
        assert task.result(60).status == "completed", task.summary().reason
        [restart] = [item.data for item in task.stream() if isinstance(item.data, TurnRestarted)]
        assert (restart.reason, restart.attempt) == ("the worker was shut down", 2)
        assert follow(task).texts == {task.history()[1].step_id: "all is said"}
        first = stack.model.requests[0]
        assert first.client_disconnected_at is not None
        assert not first.completed


def test_a_turn_without_text_is_returned_at_no_cost(tmp_path: Path) -> None:
    with stack_of(tmp_path, "agents", max_attempts=1) as stack:
        script = SlowOnce(stack, silent=True)
        stack.model.script(script)
        task = stack.orchestrator.run(SPEAKER, "Speak.")
        replace_worker(stack, "agents", script.begun)
        assert task.result(60).status == "completed", task.summary().reason
        assert "event_turn_restart" not in follow(task).types
        assert task.history()[1].metadata["attempt"] == 1


@pytest.mark.parametrize("kill", [os.kill, os.killpg])
def test_an_irreversible_call_runs_to_its_end(tmp_path: Path, kill: Callable[[int, int], None]) -> None:
    """Also if the signal reaches every process of the worker, as by `stopasgroup` of supervisord."""
    with stack_of(tmp_path, "agents", "tools", drain_timeout=0) as stack:
        stack.model.script(append_once)
        task = stack.orchestrator.run(APPENDER, "Go.")
        until(stack.count_tool_lines, 60, "the call has begun")
        kill(stack.workers["tools"].pid, signal.SIGTERM)
        assert stack.workers["tools"].process.wait(SHUTDOWN_TIMEOUT) == 0, stack.log("tools")[-3000:]
        assert task.result(60).status == "completed"
        assert [result.result for result in task.history()[2].results] == ["appended"]
        assert stack.count_tool_lines() == 1

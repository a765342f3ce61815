"""Remote agents as delegates: this deployment's own gateway is the remote one, so that a kill strikes both sides."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from roboco import Task, TaskStatus
from roboco.allowlist import Allowlist
from roboco.domain.stream.item import StreamItem
from roboco.local.process import free_port
from tests.support.gateway_openai import LONG_ANSWER, answer, write_teams
from tests.support.gateway_process import GatewayProcess
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


class Silent:
    """A server that takes messages, and never answers."""

    def __init__(self) -> None:
        self.messages: list[str] = []


@contextmanager
def silent_server(port: int) -> Iterator[Silent]:
    """Yield a server that is silent."""
    silent, ends = Silent(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            silent.messages.append(body["params"]["message"]["messageId"])
            ends.wait(120)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield silent
    finally:
        ends.set()
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stack, Silent]]:
    """Yield workers whose team `chief` delegates to the team `desk` by A2A, and to a silent server."""
    folder: Path = tmp_path_factory.mktemp("stack")
    teams, ports = write_teams(folder / "teams"), [free_port(), free_port()]
    addresses = [f"http://127.0.0.1:{ports[0]}/a2a/desk", f"http://127.0.0.1:{ports[1]}/a2a"]
    remote = {
        name: {"model": name, "provider": "a2a", "base_url": url}
        for name, url in zip(("desk", "silent", "foreign"), [*addresses, "http://127.0.0.1:1/"], strict=True)
    }
    chief = {"name": "chief", "prompt": "chief", "delegates": [f"a2a:{name}" for name in remote]}
    team = {"name": "chief", "models": {"own": {"model": "scripted", "default": True}, **remote}, "agents": [chief]}
    (teams / "chief.json").write_text(json.dumps(team))
    allowed = Allowlist(model_servers=tuple(addresses))
    with Stack(folder, teams_dir=teams, allowlist=allowed) as started:
        started.model.script(_delegating)
        with GatewayProcess(started, ports[0]), silent_server(ports[1]) as silent:
            yield started, silent


def _delegating(request: Request) -> Reply:
    if "delegate" in request.tools and not request.tool_results:
        name, _, prompt = request.last_user.partition(": ")
        return Reply(tool_calls=[("delegate", {"team": f"a2a:{name}", "prompt": prompt})])
    return answer(request)


def remote_tasks(stack: Stack, prompt: str) -> list[str]:
    """Return the statuses of the tasks of the remote team with this prompt."""
    return [str(one.status) for one in stack.orchestrator.tasks(team="desk", text=prompt) if "a2a_" in one.task_id]


def result_of(task: Task) -> str:
    """Return the result of the delegating call, once the task has ended."""
    task.result(120)
    [result] = [result for step in task.history() for result in step.results]
    return str(result.error or result.result)


def texts_of(items: list[StreamItem], parent: Task) -> str:
    """Return the text of the sub-task that a follower has seen, without what a restart made void."""
    found: list[str] = []
    for item in items:
        if item.task_id != parent.task_id and item.type == "event_turn_restart":
            found.clear()
        if item.task_id != parent.task_id and item.type == "text_part_delta":
            found = [item.data.text] if item.data.replace else [*found, item.data.text]
    return "".join(found)


def test_the_text_of_a_remote_agent_is_that_of_a_sub_task(stack: tuple[Stack, Silent]) -> None:
    task = stack[0].orchestrator.run("chief", "desk: a long one")
    items = list(task.stream(subtasks=True))
    deltas = [item for item in items if item.task_id != task.task_id and item.type == "text_part_delta"]
    assert len(deltas) > 3
    assert texts_of(items, task) == "".join(LONG_ANSWER)
    assert "".join(LONG_ANSWER).strip() in result_of(task)


@pytest.mark.slow
def test_a_killed_worker_sends_no_message_twice(stack: tuple[Stack, Silent]) -> None:
    task = stack[0].orchestrator.run("chief", "desk: a slow and long one")
    items: list[StreamItem] = []
    for item in task.stream(subtasks=True):
        items.append(item)
        if len(items) == 25:  # in the middle of the text
            stack[0].restart("agents")
    assert "event_turn_restart" in [item.type for item in items if item.task_id != task.task_id]
    assert texts_of(items, task) == "".join(LONG_ANSWER)
    assert "".join(LONG_ANSWER).strip() in result_of(task)
    assert remote_tasks(stack[0], "a slow and long one") == ["completed"]


def test_a_stop_goes_through(stack: tuple[Stack, Silent]) -> None:
    task = stack[0].orchestrator.run("chief", "desk: endless")
    until(lambda: remote_tasks(stack[0], "endless") == ["running"], 60, "the remote task works")
    for item in task.stream(subtasks=True):
        if item.task_id != task.task_id and item.type == "text_part_delta":
            break
    task.stop("enough")
    until(lambda: remote_tasks(stack[0], "endless") == ["cancelled"], 60, "the remote task is cancelled")
    assert task.result(60).status is TaskStatus.CANCELLED


def test_it_is_unknown_whether_a_silent_agent_has_the_message(stack: tuple[Stack, Silent]) -> None:
    task = stack[0].orchestrator.run("chief", "silent: act")
    until(lambda: bool(stack[1].messages), 60, "the message arrives")
    stack[0].restart("agents")
    assert "it is unknown whether the remote agent has got the message" in result_of(task)
    assert len(stack[1].messages) == 1


def test_an_address_needs_the_permission_of_the_operator(stack: tuple[Stack, Silent]) -> None:
    task = stack[0].orchestrator.run("chief", "foreign: act")
    assert "model_servers of ROBOCO_ALLOWLIST" in result_of(task)

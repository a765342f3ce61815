"""A workspace that is slow, refuses, answers too late, or is full: no step is lost or repeated."""

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roboco import Task, TransientError, parse_team
from roboco.domain.history.step import verify_chain
from roboco.lab.servers.gate import Gate, HeldRequest
from roboco.local.seaweed import S3Server
from tests.integration.cli.shell import Desk
from tests.support.journeys import GRAPH, PARALLEL, StackJourney, answer, answer_slowly, follow
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, s3_environment, until

pytestmark = pytest.mark.workers

S3_TIMEOUT = 4.0
REFUSAL = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
ECHO = parse_team({"name": "echo", "agents": [{"name": "echo", "prompt": "echo"}]})
DESK = parse_team(
    {"name": "desk", "collaboration_model": {"type": "manual"}, "agents": [{"name": "echo", "prompt": "echo"}]}
)
LARGE = "x" * 200_000


@pytest.fixture(scope="module")
def gate(s3: S3Server) -> Iterator[Gate]:
    """A gate before the S3 server. Tests leave it open."""
    with Gate(s3.port) as entered:
        yield entered


@pytest.fixture(scope="module")
def stack(s3: S3Server, gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Workers and an orchestrator that reach S3 through the gate."""
    folder, endpoint = tmp_path_factory.mktemp("stack"), f"http://127.0.0.1:{gate.port}"
    with (
        s3_environment(s3),
        Stack(folder, s3=s3, s3_endpoint_url=endpoint, s3_timeout=S3_TIMEOUT, lease_seconds=4.0) as running,
    ):
        yield running


def check(stack: Stack, journey: StackJourney, task: Task, asked: int) -> None:
    """Assert the journey's history, that a follower receives all of it, and that no turn was repeated."""
    assert task.result(120).status == "completed"
    journey.check(task, follow(task))
    assert len(stack.model.requests) - asked == sum(step.by_agent for step in task.history())
    assert stack.model.violations == []


@pytest.mark.s3
def test_a_step_waits_while_s3_refuses(stack: Stack, gate: Gate) -> None:
    stack.model.script(answer_slowly)
    asked = len(stack.model.requests)
    task = stack.orchestrator.run(GRAPH.team, GRAPH.prompt)

    def refuse_for_a_while() -> None:
        gate.refusal = REFUSAL
        with pytest.raises(TransientError, match="the S3 store refuses"):
            stack.orchestrator.run(ECHO, "Hello.")
        until(lambda: "waits until its server answers" in stack.log("agents"), 60, "a step waits")
        gate.refusal = b""

    follow(task, refuse_for_a_while)
    check(stack, GRAPH, task, asked)


@pytest.mark.s3
@pytest.mark.parametrize(
    "request_line",
    [
        r"PUT /[^ ]*/history/00000001.json",
        r"PUT /[^ ]*/history/00000002.json",
        r"PUT /[^ ]*/history.jsonl",
        r"PUT /[^ ]*/task.json",
        r"DELETE /[^ ]*_open/",
    ],
    ids=["a turn's step", "the results", "the compacted history", "the summary", "the marker"],
)
def test_a_write_answered_after_the_timeout_takes_effect_once(stack: Stack, gate: Gate, request_line: str) -> None:
    stack.model.script(answer)
    asked = len(stack.model.requests)
    held: HeldRequest = gate.hold(request_line.encode(), answer=True)
    task = stack.orchestrator.run(PARALLEL.team, PARALLEL.prompt)
    assert held.reached.wait(60)
    check(stack, PARALLEL, task, asked)
    held.release()
    check(stack, PARALLEL, task, asked)


@contextmanager
def fill_disk(stack: Stack, pool: str) -> Iterator[None]:
    """Limit the files of the pool's processes to 64 KiB, so that a write fails half-way, as on a full disk."""
    processes = [stack.workers[pool].pid, *_child_pids(stack.workers[pool].pid)]
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in processes}
    for pid, (_, hard) in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (64 * 1024, hard))
    try:
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def _child_pids(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="another process's limits are set on Linux alone")
def test_a_step_waits_while_the_disk_is_full(folder_stack: Stack) -> None:
    """The worker keeps the step until the disk has room, and logs the path and the error. The model is asked once."""
    folder_stack.model.script(lambda request: Reply(text=LARGE))
    asked = len(folder_stack.model.requests)
    with fill_disk(folder_stack, "agents"):
        task = folder_stack.orchestrator.run(ECHO, "Hello.")
        until(lambda: "waits until its server answers" in folder_stack.log("agents"), 60, "the step waits")
        assert len(task.history()) == 1
        log = folder_stack.log("agents")
        assert f"history.jsonl cannot be written: [Errno {errno.EFBIG}]" in log
        assert "make room" in log
    assert task.result(60).status == "completed"
    assert [step.text for step in task.history()] == ["Hello.", LARGE]
    assert verify_chain(folder_stack.orchestrator._engine.workspace.histories.lines(task.task_id)) == 2
    assert len(folder_stack.model.requests) - asked == 1
    folder_stack.model.script(answer)


def test_a_broken_history_stops_its_task_until_an_operator_restores_it(folder_stack: Stack) -> None:
    """Redis is emptied, and a line of the workspace is changed. The log names the step and the command to continue."""
    stack = folder_stack
    stack.model.script(lambda request: Reply(text="hello"))
    task = stack.orchestrator.run(DESK, "Hello.")
    assert task.result(60).status == "user_turn"
    path = stack.folder / "workspace" / task.task_id / "history.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"hello", b"hullo"))
    _delete_from_redis(stack, task.task_id)
    task.send("And you?")
    logged = "cannot continue, because its history is broken: step 1 ("
    until(lambda: logged in stack.log("coordinator"), 60, "the log names the broken step")
    [letter] = [one for one in stack.orchestrator.operator.dead_letters() if one.task_id == task.task_id]
    assert f"roboco dead-letters requeue {letter.letter_id}" in stack.log("coordinator")
    assert "was changed: its digest does not match" in letter.reason
    assert path.read_bytes() == whole.replace(b"hello", b"hullo"), "no step was appended to a broken history"

    desk = Desk(stack, stack.folder)
    with pytest.raises(AssertionError, match=r"step 1 \(.* was changed"):
        desk.call("verify", task.task_id)
    path.write_bytes(whole)
    assert letter.letter_id in desk.call("dead-letters")
    desk.call("dead-letters", "requeue", letter.letter_id)
    until(lambda: len(task.history()) == 4, 60, "the message is a step with a reply")
    assert verify_chain(stack.orchestrator._engine.workspace.histories.lines(task.task_id)) == 4
    task.stop()
    task.result(60)


def _delete_from_redis(stack: Stack, task_id: str) -> None:
    client = stack.orchestrator._client
    for key in client.scan_iter(f"*{{{task_id}}}*"):
        client.delete(key)

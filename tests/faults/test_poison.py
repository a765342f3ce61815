"""Work that always kills its worker: a limited number of attempts, a dead letter, and its requeue by an operator."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from roboco import UsageError, parse_team
from roboco.domain.dead_letter import DeadLetter
from tests.integration.cli.shell import Shell
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers

ECHO = {"name": "echo", "agents": [{"name": "echo", "prompt": "echo"}]}


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with Stack(tmp_path, max_attempts=3) as running:
        running.model.script(lambda request: Reply(text="hello"))
        yield running


def wait_for_letter(stack: Stack) -> DeadLetter:
    """Wait for a dead letter, and return the oldest."""
    until(stack.orchestrator.operator.dead_letters, 60, "there is a dead letter")
    return stack.orchestrator.operator.dead_letters()[0]


def test_a_tool_call_that_kills_its_worker_becomes_a_dead_letter(stack: Stack) -> None:
    def calling(request: Request) -> Reply:
        return Reply(text="done") if request.count("assistant") else Reply(tool_calls=[("die", {})])

    stack.model.script(calling)
    team = parse_team(
        {
            "name": "deadly",
            "agents": [{"name": "echo", "prompt": "echo", "tools": ["die"]}],
            "tools": [{"name": "die", "function": "tests.support.tools_for_agents:die", "effect": "pure"}],
        }
    )
    task = stack.orchestrator.run(team, "Go.")
    assert task.result(60).status == "completed"
    assert "lost 3 times" in str(task.history()[2].results[0].error)
    assert len((stack.folder / "calls.txt").read_text().splitlines()) == 3
    letter = wait_for_letter(stack)
    assert (letter.name, letter.attempts, letter.task_id) == ("roboco.tool", 3, task.task_id)
    with pytest.raises(UsageError, match="cannot be sent again"):
        stack.orchestrator.operator.requeue_dead_letter(letter.letter_id)


def test_a_turn_that_kills_its_worker_fails_its_task(stack: Stack) -> None:
    """The test kills the worker at each request to the model."""

    def deadly(request: Request) -> Reply:
        os.kill(stack.workers["agents"].pid, signal.SIGKILL)
        return Reply(text="too late", delay=1.0)

    stack.model.script(deadly)
    task = stack.orchestrator.run(parse_team(ECHO), "Go.")
    for asked in (1, 2, 3):
        until(lambda asked=asked: len(stack.model.requests) >= asked, 60, "the model receives a request")  # type: ignore[misc]
        until(lambda: not stack.workers["agents"].alive(), 60, "the worker is gone")
        stack.start("agents")
    result = task.result(60)
    assert result.status == "failed"
    assert result.reason.startswith("echo's turn was lost 3 times, with its worker")
    assert len(stack.model.requests) == 3
    assert wait_for_letter(stack).detail == "echo, step 1"


def test_a_submission_that_kills_its_worker_can_be_requeued(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=("agents",), max_attempts=3) as stack:
        stack.model.script(lambda request: Reply(text="hello"))
        stack.start("submit", modules="tests.support.crashing_workers")
        arguments = {"task_id": "DEADLY", "team": ECHO, "prompt": "Go."}
        with Celery(broker=stack.valkey.url) as producer:
            producer.send_task("roboco.submit", kwargs=arguments, queue="roboco.coordinator")
        letter = wait_for_letter(stack)
        assert (letter.name, letter.attempts, letter.queue) == ("roboco.submit", 3, "roboco.coordinator")
        assert "3 workers were lost" in letter.reason
        assert stack.workers["submit"].alive()

        stack.kill("submit")
        stack.workers["submit"].process.wait()
        stack.start("submit", modules="tests.support.crashing_workers", DEADLY_NO_MORE="1")
        shell = Shell(tmp_path, stack.environment)
        listed = shell.call_json("dead-letters", "list", "--json")
        assert [one["letter_id"] for one in listed] == [letter.letter_id]
        assert "is sent again (roboco.submit)" in shell.call("dead-letters", "requeue", letter.letter_id)
        until(lambda: not stack.orchestrator.operator.dead_letters(), 60, "the letter is gone")
        until(lambda: list(stack.orchestrator.tasks()), 60, "the task is there")
        assert stack.orchestrator.task("DEADLY").result(60).status == "completed"


def test_a_message_with_an_unknown_name_can_be_requeued(stack: Stack) -> None:
    """A deployment updates the producer before its workers."""
    with Celery(broker=stack.valkey.url) as producer:
        producer.send_task("roboco.tomorrow", kwargs={"text": "ü" * 1000}, queue="roboco.coordinator")
    letter = wait_for_letter(stack)
    assert (letter.name, letter.truncated) == ("roboco.tomorrow", False)
    assert "deploy workers before" in letter.reason
    stack.orchestrator.operator.requeue_dead_letter(letter.letter_id)
    until(
        lambda: stack.log("coordinator").count("was stored as a dead letter") == 2, 20, "the message is refused again"
    )
    until(lambda: wait_for_letter(stack).letter_id != letter.letter_id, 60, "it is another dead letter")
    again = wait_for_letter(stack)
    assert (again.body, again.reason, again.headers["id"]) == (letter.body, letter.reason, letter.headers["id"])
    with pytest.raises(UsageError, match="roboco dead-letters lists them"):
        stack.orchestrator.operator.requeue_dead_letter("another")

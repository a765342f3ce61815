"""Work beyond the coordinator's time limit: it is ended, retried a limited number of times, and then a dead letter."""

from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from tests.faults.test_poison import ECHO, wait_for_letter
from tests.integration.cli.shell import Desk
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = pytest.mark.workers


@pytest.mark.parametrize("task_id", ["SLOW", "SLOW-DEAF"], ids=["asked to end", "killed"])
def test_a_submission_that_always_takes_too_long_is_a_dead_letter(tmp_path: Path, task_id: str) -> None:
    with Stack(tmp_path, pools=("agents",), max_attempts=2) as stack:
        stack.model.script(lambda request: Reply(text="hello"))
        worker = stack.start("slow", modules="tests.support.crashing_workers")
        with Celery(broker=stack.valkey.url) as producer:
            for submitted in (task_id, "good"):
                arguments = {"task_id": submitted, "team": ECHO, "prompt": "Go."}
                producer.send_task("roboco.submit", kwargs=arguments, queue="roboco.coordinator", time_limit=900)
        until(lambda: list(stack.orchestrator.tasks()), 60, "another task is accepted")
        assert stack.orchestrator.task("good").result(60).status == "completed"
        letter = wait_for_letter(stack)
        assert (letter.name, letter.attempts, letter.queue, letter.truncated) == (
            "roboco.submit",
            2,
            "roboco.coordinator",
            0,
        )
        assert "exceeded the time limit or ran out of memory" in letter.reason
        until(lambda: not stack.orchestrator._client.exists("roboco.unacked"), 60, "no message is held")
        assert worker.alive()


def test_a_pass_beyond_the_time_limit_is_logged(tmp_path: Path) -> None:
    with Stack(tmp_path, pools=()) as stack:
        stack.start("slow", modules="tests.support.crashing_workers")
        with Celery(broker=stack.valkey.url) as producer:
            producer.send_task("roboco.advance", kwargs={"task_id": "SLOW"}, queue="roboco.coordinator")
        wanted = "roboco.advance of task 'SLOW' took longer than 3 s"
        until(lambda: wanted in stack.log("slow"), 60, "the log names the limit")


INVALID_ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "roboco.turn": ({"task_id": "a", "seq": "x", "epoch": 1, "attempt": 1}, "agents"),
    "roboco.tool": ({"task_id": "a/../b", "seq": 1, "epoch": 1, "attempt": 1, "call_id": "c"}, "tools"),
    "roboco.advance": ({"task_id": ["a"]}, "coordinator"),
    "roboco.notify": ({"task": "a"}, "coordinator"),
}


def test_messages_with_invalid_arguments_are_dead_letters(tmp_path: Path) -> None:
    with Stack(tmp_path) as stack, Celery(broker=stack.valkey.url) as producer:
        for name, (arguments, pool) in INVALID_ARGUMENTS.items():
            producer.send_task(name, kwargs=arguments, queue=f"roboco.{pool}")
        producer.send_task("roboco.submit", args=["order-17"], queue="roboco.coordinator")
        until(
            lambda: len(stack.orchestrator.operator.dead_letters()) == len(INVALID_ARGUMENTS) + 1,
            60,
            "each is a dead letter",
        )
        letters = stack.orchestrator.operator.dead_letters()
        assert {letter.name for letter in letters} == {*INVALID_ARGUMENTS, "roboco.submit"}
        assert all(letter.reason.startswith("invalid arguments: ") for letter in letters)
        assert all(worker.alive() for worker in stack.workers.values())

        desk = Desk(stack, tmp_path)
        assert desk.call("dead-letters").count("invalid arguments: ") >= 1
        [submission] = [letter for letter in letters if letter.name == "roboco.submit"]
        assert "is sent again (roboco.submit)" in desk.call("dead-letters", "requeue", submission.letter_id)
        until(lambda: len(stack.orchestrator.operator.dead_letters()) == len(letters), 60, "it is refused again")
        desk.call("dead-letters", "dismiss", "--all")
        assert desk.call("dead-letters") == "no dead letters\n"

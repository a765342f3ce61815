"""The commands with which a user controls running tasks, beside real workers."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from roboco import Task
from roboco.domain.ids import step_id_at
from roboco.domain.stream.item import TextPartDelta
from tests.integration.cli.shell import DESK, LINE, SHOW, Desk, desk_reply
from tests.support.journeys import answer
from tests.support.servers.model_server import Reply
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.redis]


@pytest.fixture
def desk(shared_stack: Stack, tmp_path: Path) -> Iterator[Desk]:
    (tmp_path / "desk.yaml").write_text(yaml.safe_dump(DESK))
    shared_stack.model.script(desk_reply)
    yield Desk(shared_stack, tmp_path)
    shared_stack.model.script(answer)


def wait_until_speaking(task: Task, seq: int = 1) -> Task:
    """Return the task once an agent streams the text of this step."""
    step_id = step_id_at(task.task_id, seq)
    next(item for item in task.stream() if isinstance(item.data, TextPartDelta) and item.data.step_id == step_id)
    return task


def wait_for_status(task: Task, status: str) -> Task:
    """Return the task once it has this status."""
    until(lambda: task.summary().status == status, 60, lambda: f"{status}: {task.summary()}")
    return task


def test_interrupt_prints_the_receipt_and_the_team_answers(desk: Desk) -> None:
    task = wait_until_speaking(desk.run("for ever"))
    output = desk.call("interrupt", task.task_id, "be brief")
    assert output.startswith(f"interrupted {task.task_id}: seen after ")
    assert output.endswith(("0 chunks came after\n", "1 chunk came after\n"))
    assert "connection closed after" in output
    wait_for_status(task, "user_turn")
    assert [step.text for step in task.history()[2:]] == ["be brief", "you said be brief"]
    assert task.history()[1].interrupted
    assert (
        desk.call("interrupt", task.task_id, "once more") == f"it is step 4 of {task.task_id}; no agent was speaking\n"
    )
    receipt = json.loads(desk.call("interrupt", task.task_id, "for ever", "--agent", "host", "--json"))
    assert receipt["seen_at"] is None or receipt["chunks_after"] is not None
    assert receipt["applied_at_seq"] >= 5
    wait_until_speaking(task, receipt["applied_at_seq"] + 1)
    assert desk.call("stop", task.task_id).startswith(f"{task.task_id} has stopped: seen after ")
    wait_for_status(task, "cancelled")
    with pytest.raises(AssertionError, match="has ended"):
        desk.call("interrupt", task.task_id, "hello?")
    desk.stack.model.wait_for(
        lambda records: all(record.completed or record.client_disconnected_at for record in records)
    )


def test_step_runs_one_step_of_a_paused_task(desk: Desk) -> None:
    asked = threading.Event()
    desk.stack.model.script(lambda request: Reply(text=f"{request.system} speaks", held_until=asked))
    before = desk.stack.model.count
    task = desk.run("Go.", LINE)
    until(lambda: desk.stack.model.count > before, 60, "the model server has the request of the first turn")
    assert "is asked to pause; continue with: roboco resume" in desk.call("pause", task.task_id)
    asked.set()
    wait_for_status(task, "paused")
    assert [step.agent_name for step in task.history()] == ["user", "first"]
    shown = desk.call("step", task.task_id)
    assert "── second · " in shown
    assert "second speaks\n" in shown
    assert "── paused · paused by cli:" in shown
    assert len(task.history()) == 3
    made = json.loads(desk.call("step", task.task_id, "--json"))
    assert [step["agent_name"] for step in made["steps"]] == ["third"]
    assert made["summary"]["status"] in ("paused", "completed")
    if made["summary"]["status"] == "paused":
        assert desk.call("resume", task.task_id) == f"{task.task_id} continues\n"
    wait_for_status(task, "completed")


def task_awaiting_approval(desk: Desk) -> tuple[Task, str]:
    """Return a task that waits for the approval of a call, and the id of the call."""
    task = wait_for_status(desk.run("add"), "approval")
    return task, task.history()[-1].calls[0].id


@pytest.mark.parametrize(
    ("arguments", "confirmation", "final_text"),
    [
        (("approve", "--args", '{"a": 1, "b": 2}'), "is approved: add(a=1, b=2)", '{"a":1,"b":2}) 3'),
        (
            ("deny", "--reason", "too much"),
            "is denied: add(a=19, b=23)",
            "did not approve this call, and it was not run: too much",
        ),
    ],
)
def test_approve_and_deny_decide_about_a_call(
    desk: Desk, arguments: tuple[str, ...], confirmation: str, final_text: str
) -> None:
    task, call_id = task_awaiting_approval(desk)
    verb, *options = arguments
    answer = desk.call(verb, task.task_id, call_id, *options)
    assert answer == f"{call_id} {confirmation} of host, task {task.task_id}\n"
    wait_for_status(task, "user_turn")
    assert final_text in task.history()[-1].text
    with pytest.raises(AssertionError, match=r"is not an open call|answered before"):
        desk.call("approve", task.task_id, call_id, "--args", '{"a": 9, "b": 9}')


def test_answer_is_the_result_of_a_client_tool(desk: Desk) -> None:
    task = wait_for_status(desk.run("show", client_tools=[SHOW]), "client_tool_turn")
    call_id = task.history()[-1].calls[0].id
    assert (
        desk.call("answer", task.task_id, call_id, "--declined", "--error", "not now")
        == f'{call_id} is answered: client_show(what="a map") of host, task {task.task_id}\n'
    )
    wait_for_status(task, "user_turn")
    assert "declined by the client: not now" in task.history()[-1].text
    with pytest.raises(AssertionError, match=r"is not an open call|answered before"):
        desk.call("answer", task.task_id, call_id, "--result", "5")


def test_ctrl_c_interrupts_with_a_message(desk: Desk) -> None:
    with desk.start_on_terminal("run", "desk.yaml", "for ever") as terminal:
        terminal.wait_for_text("Ctrl-C lets you send a message to the team; twice stops the task")
        terminal.wait_for_text("on and on and ")
        terminal.type_text("keys\x03")
        terminal.wait_for_text("your message (Enter sends it")
        assert not any(typed in terminal.screen for typed in ("keys", "^C"))  # not within the text
        terminal.wait_for_text("> ")
        terminal.type_text("\n")
        terminal.wait_for_text("no message: the task continues")
        terminal.wait_for_text("host")
        terminal.wait_for_text("continues")
        terminal.wait_for_text("on and ")
        terminal.type_text("\x03")
        terminal.wait_for_text("your message (Enter sends it")
        terminal.wait_for_text("> ")  # keys are echoed from here on
        terminal.type_text("be brief\n")
        terminal.wait_for_text("(interrupted)")
        terminal.wait_for_text("be brief")
        terminal.wait_for_text("interrupts host")
        terminal.wait_for_text("connection closed after")
        terminal.wait_for_text("host was interrupted, and continues with the user's message")
        terminal.wait_for_text("you said be brief")
        terminal.wait_for_text("your answer (Enter sends it")
        terminal.wait_for_text("> ")
        terminal.type_text("\n")
        terminal.wait_for_text("the task waits (user_turn); to continue:")
        terminal.wait_for_text("  roboco send task_")
        assert terminal.wait_for_exit() == 0
        assert terminal.screen.count("be brief") == 3  # typed, in the transcript, and quoted by the host

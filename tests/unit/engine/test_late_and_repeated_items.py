"""Controls and messages that a task receives twice, late or incompletely."""

from collections.abc import Callable
from typing import Any

import pytest

from roboco.client.receipt import find_receipt
from roboco.domain.canonical_json import canonical_json
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import ErrorOccurred
from roboco.domain.stream.merged import Cursor, MergedStream
from roboco.engine.coordinate.actions import MAX_LOGGED_REASON
from roboco.errors import AlreadyEnded, ModelError, UsageError
from tests.support.memory_ports.dispatcher import AdvanceMessage
from tests.support.memory_ports.journeys import SEQUENTIAL, member, own_turns, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.watch import refusing
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

ONE_AGENT = team_of(agents=[member("a")], collaboration_model={"type": "manual"})


def waiting_task() -> World:
    """Return the world of a task that waits for its user."""
    world = World(world_parts(lambda request: says(f"{speaker(request)} answers")))
    world.submit(ONE_AGENT)
    world.settle()
    return world


def run_coordinators(world: World) -> None:
    """Deliver the messages for coordinators, and for no other worker."""
    while found := [message for message in world.dispatcher.queue if isinstance(message, AdvanceMessage)]:
        world.dispatcher.queue.remove(found[0])
        world.deliver(found[0])


def is_interruption(name: str, call: Any) -> bool:
    return name == "task_store.add_items" and call.args[2:3] == (True,)


def test_a_repeated_interruption_does_not_delay_the_next_turn() -> None:
    world = waiting_task()
    first = [True]

    def watch(name: str, call: Any) -> Any:
        if is_interruption(name, call) and first:
            first.clear()
            world.interrupt("shorter")
            run_coordinators(world)
        return call()

    world.watch = watch
    world.interrupt("shorter")
    world.settle()
    assert not first
    assert [step.text for step in world.history() if step.agent_name == "user"] == ["go", "shorter"]
    assert world.history()[-1].text == "a answers"
    assert world.clock.now() - world.history()[0].created_at.timestamp() < 60


def test_a_late_repetition_of_an_interruption_does_not_end_the_turn_that_follows_it() -> None:
    late: list[Callable[[], Any]] = []

    def arrive_late() -> None:
        for call in late:
            call()

    def script(request: Any) -> ScriptedReply:
        return ScriptedReply(("a brief ", "answer"), meanwhile=arrive_late)

    def watch(name: str, call: Any) -> Any:
        if is_interruption(name, call) and not late:  # the repetition has found that the item is not applied
            late.append(call)
            world.settle()  # now it is applied, and the call arrives in the middle of the next turn
            return None
        return call()

    world = World(world_parts(script))
    world.submit(ONE_AGENT)
    world.settle()
    world.interrupt("shorter")
    world.watch = watch
    world.interrupt("shorter")
    world.settle()
    assert late
    assert [step.text for step in world.history()] == ["go", "a brief answer", "shorter", "a brief answer"]


def test_a_repetition_of_an_interruption_does_not_end_the_turn_that_it_has_caused() -> None:
    """A pass dispatches the next turn before it marks the item as applied."""
    marks: list[str] = []
    repeated: list[str] = []

    def script(request: Any) -> ScriptedReply:
        return ScriptedReply(("a brief ", "answer"), meanwhile=repeat)

    def repeat() -> None:
        if marks and not repeated:
            repeated.append("shorter")
            world.interrupt("shorter")

    def watch(name: str, call: Any) -> Any:
        if name == "files.put" and "/applied/" in call.args[0] and not marks:
            marks.append(call.args[0])
            world.settle()  # the next turn runs before the mark is written
        return call()

    world = World(world_parts(script))
    world.submit(ONE_AGENT)
    world.settle()
    world.watch = watch
    world.interrupt("shorter")
    world.settle()
    assert repeated
    assert [step.text for step in world.history()] == ["go", "a brief answer", "shorter", "a brief answer"]


def test_a_message_to_a_failed_task_names_the_remedy_also_before_the_summary_has_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(request: Any) -> ScriptedReply:
        raise ModelError("bad_request", "the model refuses", False)

    world = World(world_parts(refuse))
    world.submit(ONE_AGENT)
    world.settle()
    summary = world.engine.workspace.summaries.get(TASK)
    assert summary is not None
    before = summary.model_copy(update={"status": TaskStatus.RUNNING})
    monkeypatch.setattr(type(world.engine.workspace.summaries), "get", lambda *_: before)
    with pytest.raises(AlreadyEnded, match="retry it, or fork it"):
        world.send("one more")


def test_a_message_is_checked_at_once_if_its_wake_up_cannot_be_sent() -> None:
    world = waiting_task()
    world.watch = refusing("dispatcher.advance")
    world.send("more")
    assert world.server.held.schedule[TASK] <= world.clock.now()


def test_the_reason_of_a_failed_task_is_one_bounded_printable_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    message = f"redis://u:pass-word@h\nERROR forged\x1b[2J{'x' * 100_000}"
    world = World(world_parts(lambda request: ScriptedReply(error=ModelError("bad_request", message, False))))
    world.submit(ONE_AGENT)
    world.settle()
    [line] = [line for line in caplog.messages if line.startswith("task task_1 ended")]
    assert line.startswith("task task_1 ended as failed: a: redis://***@h\\nERROR forged\\u001b[2Jxxx")
    assert line.isprintable()
    assert len(line) < MAX_LOGGED_REASON + 100


def test_one_item_id_cannot_name_two_items() -> None:
    world = waiting_task()
    world.send("hello", "same")
    with pytest.raises(UsageError, match="use another id for each item"):
        world.stop("same")
    world.settle()
    assert world.history()[2].text == "hello"
    with pytest.raises(UsageError, match="use another id for each item"):
        world.stop("same")


def test_the_receipt_of_a_late_message_is_expired() -> None:
    worlds: list[World] = []

    def script(request: Any) -> ScriptedReply:
        failed = ModelError("model", "refused", retryable=False)
        return ScriptedReply(("half",), error=failed, meanwhile=lambda: worlds[0].send("wait", "late"))

    worlds.append(World(world_parts(script)))
    worlds[0].submit(ONE_AGENT)
    worlds[0].settle()
    assert worlds[0].summary().status is TaskStatus.FAILED
    receipt = find_receipt(worlds[0].engine.workspace, TASK, "late")
    assert (receipt.expired, receipt.applied_at_seq) == (True, None)


def test_only_the_current_view_of_the_user_is_sent() -> None:
    world = waiting_task()
    for number in range(2):
        world.send(f"m{number}", f"m{number}", attachments={"client_context": {"page": number}})
        world.settle()
    messages = world.given.model.requests[-1].messages
    shown = [message["content"] for message in messages if "view of the user" in str(message["content"])]
    assert shown == ['(Current view of the user: {"page":1})']


def test_an_error_event_does_not_move_the_cursor_of_followers() -> None:
    world = SEQUENTIAL.run(SEQUENTIAL.world())
    event = ErrorOccurred(task_id=TASK, timestamp=world.engine.now(), code="refused", message="no")
    world.server.published.insert(8, (TASK, canonical_json(event.model_dump(mode="json"))))
    view = MergedStream(Cursor(), lambda start: list(world.histories.read(TASK, start)))
    items = [item for record in world.published() for item in view.feed(record)]
    [at] = [index for index, item in enumerate(items) if item.type == "event_error"]
    assert items[at].cursor == items[at - 1].cursor
    assert not any(getattr(item.data, "replace", False) for item in items)
    assert view.cursor.steps == len(world.history())


def test_unsupported_tool_names_are_sanitized_in_later_prompts() -> None:
    def script(request: Any) -> ScriptedReply:
        match own_turns(request):
            case 0:
                return says("", ("functions.search it", {}))
            case _:
                return says("")

    world = World(world_parts(script))
    world.submit(ONE_AGENT)
    world.settle()
    world.send("again")
    world.settle()
    assistants = [one for one in world.given.model.requests[-1].messages if one["role"] == "assistant"]
    assert [call["function"]["name"] for one in assistants for call in one["tool_calls"]] == ["functions_search_it"]
    assert len(assistants) == 1
    assert "functions.search it" in str(world.history()[2].results[0].error)

"""The output of the live view for each kind of item, without a terminal."""

import io
import json

import pytest

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal.json_output import print_item
from roboco.cli.terminal.screen import Screen
from roboco.domain.history.part import ErrorPart, TextPart
from roboco.domain.stream.item import TextPartDelta, ToolCallItem, stream_item
from tests.unit.cli.live_items import delta, event, final, show_items, tool_call, tool_result

SELECTED = event("agent_select", agent_name="writer", step_id="step_1", reason="is the first")
LABEL = "\n── writer · is the first\n"


def test_a_complete_task_is_shown() -> None:
    call, result = tool_call("add", a=1, b="two"), tool_result("x" * 999, runtime_ms=1234)
    text = show_items(
        event("task_start", team="desk"),
        event("user_message", step_id="step_0", text="write"),
        event("status", status="running", reason=""),
        SELECTED,
        delta("Once upon "),
        delta("a time"),
        call,
        final("writer", TextPart(text="Once upon a time"), call.part),
        result,
        final("tool_executor", result.part),
        event("task_end", 2.5, status="completed", reason="done", usage={"steps": 3, "tokens_in": 10, "tokens_out": 5}),
    )
    assert text == (
        "task t · team desk\n"
        "\n── you\nwrite\n"
        f'{LABEL}Once upon a time\n   → add(a=1, b="two")\n'
        f"   ← add · 1.2 s · {'x' * 479}…\n"
        "\n── completed · done\n   3 steps · 10 tokens in, 5 out · 2.5 s\n"
    )


@pytest.mark.parametrize(("attempt", "made"), [(2, "1 attempt"), (6, "5 attempts")])
def test_turn_that_is_replaced_names_the_attempts_that_were_made(attempt: int, made: str) -> None:
    replaced = event("turn_restart", step_id="step_1", attempt=attempt, reason="its worker was lost", replaced=True)
    notice = f"\n   ends after {made} (discard the text above): its worker was lost\n"
    assert show_items(SELECTED, delta("half"), replaced) == f"{LABEL}half{notice}"


RECEIPT = {
    "requested_at": "2026-11-21T12:00:00+00:00",
    "seen_at": "2026-11-21T12:00:00.012+00:00",
    "closed_at": "2026-11-21T12:00:00.015+00:00",
    "chunks_after": 1,
}
CUT_OFF = final("writer", TextPart(text="Once"), interrupted=True, receipt=RECEIPT)


def test_an_interrupting_message_is_shown() -> None:
    message = event("user_message", step_id="step_2", text="be brief")
    notice = event("user_interrupt", reason="be brief", receipt=RECEIPT)
    closed = "   interrupts writer · connection closed after 15 ms, 1 chunk came after\n"
    assert show_items(SELECTED, delta("Once"), CUT_OFF, message, notice) == (
        f"{LABEL}Once\n   (interrupted)\n\n── you\nbe brief\n{closed}"
    )


def test_an_answer_that_was_typed_is_not_shown_again() -> None:
    assert show_items(event("user_message", step_id="step_2", text="the sea"), typed=["the sea"]) == ""


def test_after_a_stop_only_the_end_is_shown() -> None:
    file = io.StringIO()
    view = LiveView(Screen(file))
    view.note_stop()
    stop, end = event("user_interrupt", reason="enough"), event("task_end", status="cancelled", reason="enough")
    for item in (SELECTED, delta("Once"), CUT_OFF, stop, end):
        view.show(stream_item(item, "0.0.0.0.1"))
    assert file.getvalue().splitlines()[:3] == ["   interrupted: enough", "", "── cancelled · enough"]


def test_the_turn_of_a_function_is_shown_once() -> None:
    selected = event("agent_select", agent_name="critic", step_id="step_1", reason="after writer always")
    turn = ToolCallItem(step_id="step_1", agent_name="critic", part=tool_call("critic").part)
    begins, result = final("critic", turn.part, function="call"), tool_result("answered")
    answer = TextPartDelta(text="Be brief.", step_id="step_2", agent_name="critic", attempt=1)
    text = show_items(selected, turn, begins, result, final("tool_executor", result.part), answer)
    assert text == "\n── critic · writer has finished\nBe brief."


def test_the_turn_of_a_function_that_fails_is_shown() -> None:
    turn = ToolCallItem(step_id="step_1", agent_name="critic", part=tool_call("critic").part)
    shown = show_items(turn, final("critic", turn.part, function="call"), tool_result(error="KeyError: 'a'"))
    assert shown == "   ← critic · 5 ms · KeyError: 'a'\n"


def test_arguments_that_a_user_changed_are_shown() -> None:
    approvals = {"tc_1": {"approved": True, "args": {"a": 2}}, "tc_2": {"approved": True, "args": None}}
    result = tool_result(4)
    text = show_items(tool_call("add", a=1), result, final("tool_executor", result.part, approvals=approvals))
    assert text.splitlines()[1:] == ["   ← add · 5 ms · 4", '   a person approved add with: {"a": 2}']


def test_control_characters_of_items_do_not_reach_the_terminal() -> None:
    hostile = "\x1b]0;title\x07[bold]\x1b[2Jx"
    items = [
        event("agent_select", agent_name="writer", step_id="step_1", reason=hostile),
        delta(hostile),
        delta("\x1b"),
        delta("[2J"),
        tool_call(hostile, a=hostile),
        tool_result(hostile),
        tool_result(error=hostile),
        event("agent_handoff", from_agent="writer", to_agent="critic", reason=hostile),
        event("turn_restart", step_id="step_1", attempt=2, reason=hostile),
        event("error", code=hostile, message=hostile),
        event("user_message", step_id="step_0", text=hostile),
        event("task_end", status="failed", reason=hostile),
    ]
    text = show_items(*items)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x" in text  # and markup is text


def test_json_lines_hold_item_and_cursor() -> None:
    file = io.StringIO()
    print_item(file, stream_item(delta("\x1b[2J ü"), "g.1.2.3.1"))
    assert "\x1b" not in file.getvalue()
    assert json.loads(file.getvalue()) == {
        "type": "text_part_delta",
        "cursor": "g.1.2.3.1",
        "text": "\x1b[2J ü",
        "step_id": "step_1",
        "agent_name": "writer",
        "attempt": 1,
        "replace": False,
    }


def test_the_cause_of_a_wait_is_printed_once() -> None:
    waits = event("status", status="running", reason="it waits for a server")
    assert show_items(waits, waits).count("it waits for a server") == 1


def test_a_typed_answer_is_printed_as_yaml() -> None:
    value = {"verdict": "good", "points": ["short", "clear"]}
    text = json.dumps(value)
    typed = final("writer", TextPart(text=text), output=value)
    assert show_items(SELECTED, delta(text[:9]), delta(text[9:]), typed) == (
        f"{LABEL}verdict: good\npoints: [short, clear]"
    )


def test_a_text_that_only_looks_like_a_typed_answer_is_printed_as_it_is() -> None:
    text = show_items(SELECTED, delta("[1] is "), delta("a note"), final("writer", TextPart(text="[1] is a note")))
    assert text == f"{LABEL}[1] is a note"


def test_an_error_that_ends_the_task_is_printed_once() -> None:
    failed = final("writer", ErrorPart(code="model", message="it is gone"))
    text = show_items(failed, event("task_end", status="failed", reason="it is gone"))
    assert text.splitlines()[:3] == ["   error model: it is gone", "", "── failed"]

"""The output of the live view for each kind of item, without a terminal."""

import io
import json

import pytest

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal.json_lines import JsonLines
from roboco.cli.terminal.screen import Screen
from roboco.domain.history.part import Artifact, ArtifactPart, ErrorPart, TextPart
from roboco.domain.stream.item import stream_item
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


def test_a_typed_message_is_not_repeated() -> None:
    message = event("user_message", step_id="step_3", text="go on")
    assert show_items(message, typed=["go on"]) == ""
    assert (
        show_items(message, final("user", TextPart(text="go on")), typed=["else"]).count("go on") == 2
    )  # another step


def test_restarted_and_replaced_texts_are_marked() -> None:
    again = event("turn_restart", step_id="step_1", attempt=2, reason="the worker was lost")
    notice = "\n   starts again (attempt 2, discard the text above): the worker was lost\n"
    assert show_items(SELECTED, delta("half"), again, delta("whole", 2)) == f"{LABEL}half{notice}whole"
    assert "attempt 2, discard" in show_items(SELECTED, delta("half"), delta("whole", 2))
    # text that is already printed is not repeated
    assert show_items(SELECTED, delta("half"), delta("half and half", replace=True)) == f"{LABEL}half and half"
    other = show_items(SELECTED, delta("half"), delta("other", replace=True))
    assert other == f"{LABEL}half\n   once more, whole (discard the text above)\nother"
    assert show_items(delta("all at once", replace=True)) == "\n── writer\nall at once"


@pytest.mark.parametrize(("attempt", "made"), [(2, "1 attempt"), (6, "5 attempts")])
def test_turn_that_is_replaced_names_the_attempts_that_were_made(attempt: int, made: str) -> None:
    replaced = event("turn_restart", step_id="step_1", attempt=attempt, reason="its worker was lost", replaced=True)
    notice = f"\n   ends after {made} (discard the text above): its worker was lost\n"
    assert show_items(SELECTED, delta("half"), replaced) == f"{LABEL}half{notice}"


def test_failures_and_interruptions_are_shown() -> None:
    text = show_items(
        event("user_interrupt", reason="enough"),
        event("stream_reset", steps=4),
        event("error", code="refused", message="no\nsuch agent"),
        event("agent_handoff", from_agent="writer", to_agent="critic", reason="ready"),
        event("from_a_newer_release"),
        tool_result(error="division by zero"),
        final("orchestrator", ErrorPart(code="limit", message="max_steps is 3")),
        final("orchestrator", ErrorPart(code="stopped", message="shown already by the interruption")),
    )
    assert text.splitlines() == [
        "   interrupted: enough",
        "   set up again from the workspace, which holds 4 steps",
        "   error refused: no such agent",
        "   writer hands off to critic: ready",
        "   event_from_a_newer_release",
        "   ← 5 ms · division by zero",
        "   error limit: max_steps is 3",
    ]


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
    closed = "   connection closed after 15 ms, 1 chunk came after\n"
    assert show_items(SELECTED, delta("Once"), CUT_OFF, message, notice) == (
        f"{LABEL}Once\n   (interrupted)\n\n── you\nbe brief\n{closed}"
    )
    assert show_items(CUT_OFF, message, notice, typed=["be brief"]) == f"   (interrupted)\n{closed}"
    assert (
        show_items(message, event("user_interrupt", reason="be brief"), typed=["be brief"]) == ""
    )  # no agent was writing


def test_a_stop_is_shown() -> None:
    notice = event("user_interrupt", reason="enough", receipt=RECEIPT | {"closed_at": None, "chunks_after": 0})
    assert show_items(CUT_OFF, notice).splitlines() == [
        "   (interrupted)",
        "   interrupted: enough · connection not closed yet, 0 chunks came after",
    ]


def test_arguments_that_a_user_changed_are_shown() -> None:
    approvals = {"tc_1": {"approved": True, "args": {"a": 2}}, "tc_2": {"approved": True, "args": None}}
    result = tool_result(4)
    text = show_items(tool_call("add", a=1), result, final("tool_executor", result.part, approvals=approvals))
    assert text.splitlines()[1:] == ["   ← add · 5 ms · 4", '   a person approved add with: {"a": 2}']


def test_the_agent_is_named_again_after_an_interjection() -> None:
    file = io.StringIO()
    view = LiveView(Screen(file))
    for item in (SELECTED, delta("Once ")):
        view.show(stream_item(item, ""))
    view.note_interjection()
    for item in (delta("upon "), delta("a time")):
        view.show(stream_item(item, ""))
    assert file.getvalue() == f"{LABEL}Once \n\n── writer · continues\nupon a time"


def test_a_wait_shows_its_reason() -> None:
    reasons = ("a person must approve: add (tc_1)", "the client must run: client_show (tc_1)", "paused by the user")
    waits = zip(("approval", "client_tool_turn", "paused"), reasons, strict=True)
    text = show_items(*(event("status", status=status, reason=reason) for status, reason in waits))
    assert text.splitlines() == [
        "   approval: a person must approve: add (tc_1)",
        "   client_tool_turn: the client must run: client_show (tc_1)",
        "   paused: paused by the user",
    ]


def test_parts_without_an_event_are_shown_with_their_step() -> None:
    artifact = Artifact(artifact_id="a", uri="file://artifacts/poem.md", mime_type="text/markdown", size=12)
    call = tool_call("add", a=1)
    text = show_items(final("writer", call.part, ArtifactPart(artifact=artifact), finish_reason="length"))
    assert text.splitlines() == [
        "   → add(a=1)",
        "   file poem.md · text/markdown · 12 bytes",
        "   cut off here: the answer has reached its max_tokens",
    ]


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


def test_a_step_of_a_history_is_shown() -> None:
    file = io.StringIO()
    LiveView(Screen(file)).step(final("writer", TextPart(text="poem"), routing={"reason": "is the first"}).step)
    assert file.getvalue() == f"{LABEL}poem"


def test_a_result_after_a_noted_call_is_shown() -> None:
    file = io.StringIO()
    view = LiveView(Screen(file))
    view.note_step(final("writer", tool_call("add", a=1).part).step)
    view.step(final("tool_executor", tool_result(3).part).step)
    assert file.getvalue() == "   ← add · 5 ms · 3\n"


def test_json_lines_hold_item_and_cursor() -> None:
    file = io.StringIO()
    JsonLines(file).show(stream_item(delta("\x1b[2J ü"), "g.1.2.3.1"))
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


def test_json_lines_keep_an_event_of_a_newer_release() -> None:
    file = io.StringIO()
    JsonLines(file).show(stream_item(event("of_tomorrow", more=[1]), "g.1.2.3.1"))
    shown = json.loads(file.getvalue())
    assert (shown["type"], shown["more"]) == ("event_of_tomorrow", [1])


def test_a_changed_tool_that_waits_for_approval_is_shown() -> None:
    parts = [{"part": "description", "before": '"Buy."', "after": '"Sell\u200b."'}]
    change = {"call_id": "c", "server": "shop", "tool": "buy", "parts": parts}
    text = show_items(event("status", status="approval", reason="changed", changes=[change]))
    assert '   buy: description was "Buy."\n   buy: description now "Sell\\u200b."\n' in text

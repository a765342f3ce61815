"""Screen on a terminal: no word is split, and the status line leaves no trace."""

import logging
import random
from io import StringIO

import pytest

from roboco.cli.interactive.live_view import LiveView
from roboco.cli.terminal.log_notes import LogNotes
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.word_wrap import WordWrap
from roboco.domain.stream.item import ItemData, stream_item
from tests.unit.cli.emulator import Emulator
from tests.unit.cli.live_items import delta, event, tool_call, tool_result

WORDS = [f"{'word' * (length % 5)}{length}" for length in range(120)]
TEXT = " ".join(WORDS)


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setenv("TERM", "xterm")


def test_status_between_any_two_pieces_leaves_no_trace() -> None:
    pieces, chance = [TEXT[place : place + 4] for place in range(0, len(TEXT), 4)], random.Random(5)
    file = Emulator()
    screen = Screen(file)
    for piece in pieces:
        screen.write(piece)
        if piece.endswith(" ") and chance.random() < 0.5:
            screen.status("writer is writing · 3 s")
            assert file.screen()[-1] == "writer is writing · 3 s"
            screen.status("writer is writing · 4 s")
    screen.line("end")
    assert " ".join(file.screen()).split() == [*WORDS, "end"]


def test_paragraph_indents_its_further_lines() -> None:
    file = Emulator()
    Screen(file).paragraph(("   ← add · ", "dim"), (TEXT, "green"), indent=5)
    first, *rest, last = file.screen()
    assert " ".join([first, *rest]).split() == ["←", "add", "·", *WORDS]
    assert first.startswith("   ← add · 0 word1")
    assert last == ""
    assert all(line.startswith("     ") and line[5] != " " and len(line) < 80 for line in rest)


def test_text_without_spaces_is_broken_at_the_width() -> None:
    wrap = WordWrap()
    assert wrap.feed("x" * 200, 80) + wrap.flush(80) == "x" * 79 + "\n" + "x" * 79 + "\n" + "x" * 42
    wide = WordWrap()
    assert wide.feed("海" * 60, 80) + wide.flush(80) == "海" * 39 + "\n" + "海" * 21
    code = WordWrap()
    assert code.feed("if x:\n\treturn\n\n  y ", 80) + code.flush(80) == "if x:\n    return\n\n  y"


def view_of(*items: ItemData, hint: str = "") -> tuple[Emulator, LiveView]:
    file = Emulator()
    view = LiveView(Screen(file), hint=hint)
    for item in items:
        view.show(stream_item(item, "0.0.0.0.1"))
    return file, view


SELECTED = event("agent_select", agent_name="writer", step_id="step_1", reason="is the first")


@pytest.mark.parametrize(
    ("items", "work"),
    [
        ((event("task_start", team="desk"),), "starting"),
        ((SELECTED,), "writer is thinking"),
        ((SELECTED, delta("Once ")), "writer is writing"),
        ((SELECTED, tool_call("add", a=1)), "add runs"),
        ((SELECTED, tool_call("add", a=1), tool_result(3)), "deciding"),
        ((SELECTED, event("status", status="running", reason="")), "starting"),
    ],
)
def test_status_line_names_the_running_work(items: tuple[ItemData, ...], work: str) -> None:
    file, view = view_of(*items, hint=" · Ctrl-C")
    view.show_status()
    assert file.screen()[-1] == f"   {work} · 0 s · Ctrl-C"
    view.show_status("model 'm' has sent nothing for 20 s")
    assert file.screen()[-1] == "   model 'm' has sent nothing for 20 s · 0 s · Ctrl-C"


def test_what_is_logged_is_printed_between_texts_alone() -> None:
    file, view = view_of(SELECTED, delta("Once "), hint=" · Ctrl-C")
    printed = StringIO()
    with LogNotes().installed() as logged:
        view.show_status()
        before = file.getvalue()
        logging.getLogger("roboco.client").warning("task %s waits", "t")
        logging.getLogger("roboco.client").info("not this")
        assert file.getvalue() == before
        for _ in range(2):
            logged.print(Screen(printed))
        assert printed.getvalue() == "task t waits\n"

"""What a person at the terminal is asked, and what becomes of what they type."""

import io
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from roboco import TaskStatus, TransientError, UsageError
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.user import ApprovalInput, TerminalUser, parse_approval
from roboco.cli.terminal.screen import Screen
from roboco.cli.terminal.signals import Interrupted
from roboco.domain.history.part import ToolCall
from roboco.domain.stream.item import stream_item
from roboco.domain.team.tool_difference import PartDifference, ToolDifference
from tests.unit.cli.live_items import event


class Table:
    """A person at a screen who types these lines, and a task that notes what it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: str | BaseException) -> None:
        self.told: list[tuple[str, ...]] = []
        self.refuses: Exception | None = None
        self.calls: list[ToolCall] = []
        self.unsure: list[ToolCall] = []
        self.changed: dict[str, ToolDifference] = {}
        self.prompts: list[str] = []
        self._lines = iter(lines)
        self._file = io.StringIO()
        self.view = LiveView(Screen(self._file))
        self.person = TerminalUser(self, self, Screen(self._file), self.view)
        monkeypatch.setattr("roboco.cli.interactive.user.read_line", self._input)

    @property
    def screen(self) -> list[str]:
        return self._file.getvalue().splitlines()

    def send(self, message: str) -> None:
        self._note("send", message)

    def interrupt(self, message: str) -> None:
        self._note("interrupt", message)

    def approve(self, call_id: str, args: dict[str, Any] | None = None) -> None:
        self._note("approve", call_id, str(args))

    def deny(self, call_id: str, reason: str = "") -> None:
        self._note("deny", call_id, reason)

    def unapproved(self) -> list[ToolCall]:
        return self.calls

    def unknown(self) -> list[ToolCall]:
        return self.unsure

    def changes(self) -> dict[str, ToolDifference]:
        return self.changed

    def _note(self, *told: str) -> None:
        if self.refuses:
            raise self.refuses
        self.told.append(told)

    def _input(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines)
        if isinstance(line, BaseException):
            raise line
        return line


At = Callable[..., Table]
TOO_LATE = UsageError("task 't' has ended (completed)")


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> At:
    return lambda *lines: Table(monkeypatch, *lines)


def call(index: int = 1, **args: Any) -> ToolCall:
    return ToolCall(id=f"tc_{index}", tool_name="pay", args=args)


def test_a_reply_of_several_lines(at: At) -> None:
    table = at("two", "lines", "")
    assert table.person.answer(TaskStatus.USER_TURN)
    assert table.told == [("send", "two\nlines")]
    assert table.screen == [
        "",
        "your answer, ended by an empty line (empty: leave; Ctrl-C: stop the task)",
    ]
    table.view.show(stream_item(event("user_message", step_id="step_2", text="two\nlines"), ""))
    assert len(table.screen) == 2  # it stands there already


@pytest.mark.parametrize("lines", [("",), (EOFError(),), ("  ", "")])
def test_no_reply(at: At, lines: Iterable[Any]) -> None:
    table = at(*lines)
    assert not table.person.answer(TaskStatus.USER_TURN)
    assert not at(*lines).person.interject()
    assert table.told == []


def test_an_interjection(at: At) -> None:
    table = at("be brief", "")
    assert table.person.interject()
    assert table.told == [("interrupt", "be brief")]
    assert table.screen[1].startswith("your message, ended by an empty line")
    assert "Ctrl-C: stop the task" in table.screen[1]


def test_an_interjection_that_comes_too_late(at: At) -> None:
    table = at("be brief", "")
    table.refuses = TOO_LATE
    assert table.person.interject()
    assert table.screen[-1] == "task 't' has ended (completed)"


def test_an_interjection_that_no_server_takes(at: At) -> None:
    table = at("be brief", "")
    table.refuses = TransientError("redis does not answer")
    assert not table.person.interject()
    assert table.screen[-1] == "redis does not answer; Ctrl-C asks again"


def test_ctrl_c_at_a_question(at: At) -> None:
    table = at("half", Interrupted(2))
    with pytest.raises(Interrupted):
        table.person.interject()
    assert table.told == []


def test_approval(at: At) -> None:
    table = at("y", "n too much", '{"sum": 2}')
    table.calls = [call(1, sum=1), call(2, sum=999), call(3, sum=3)]
    assert table.person.answer(TaskStatus.APPROVAL)
    assert table.told == [("approve", "tc_1", "None"), ("deny", "tc_2", "too much"), ("approve", "tc_3", "{'sum': 2}")]
    assert table.screen[1:3] == ["── pay needs your approval", '   {"sum": 1}']


def test_approval_is_asked_for_again_until_it_is_said(at: At) -> None:
    table = at("perhaps", "{", "[1]", "Y")
    table.calls = [call()]
    assert table.person.answer(TaskStatus.APPROVAL)
    assert table.told == [("approve", "tc_1", "None")]
    assert table.screen.count("say y, n, n REASON, or a JSON object") == 2
    assert any(line.startswith("this is no JSON: ") for line in table.screen)


def test_approval_that_is_left_or_given_elsewhere(at: At) -> None:
    table = at("y", "")
    table.calls = [call(1), call(2)]
    table.refuses = TOO_LATE
    assert not table.person.answer(TaskStatus.APPROVAL)
    assert "task 't' has ended (completed)" in table.screen
    assert table.told == []


def test_nothing_is_hidden_of_what_is_approved(at: At) -> None:
    table = at("y")
    table.calls = [call(text="x" * 500, to="\x1b[2J\u202e\x7f")]
    table.person.answer(TaskStatus.APPROVAL)
    whole = "\n".join(table.screen)
    assert "x" * 500 in whole
    assert r"\u001b[2J\u202e\u007f" in whole
    assert '\n     "text": "x' in whole  # a line for each argument


def test_changed_tool_is_shown_before_it_is_approved(at: At) -> None:
    table = at("y")
    table.calls = [call()]
    part = PartDifference(part="description", before='"Buy."', after='"Buy\u202e."')
    table.changed = {"tc_1": ToolDifference(call_id="tc_1", server="shop", tool="buy", parts=(part,))}
    table.person.answer(TaskStatus.APPROVAL)
    assert table.screen[4:8] == [
        "── tool buy of MCP server shop has changed · call tc_1",
        "   description",
        '     was "Buy."',
        r'     now "Buy\u202e."',
    ]
    assert table.screen[8].startswith("approve the change? y, n [REASON]; this call does not run")


def test_what_no_approval_helps(at: At) -> None:
    table = at()
    table.unsure = [call()]
    assert not table.person.answer(TaskStatus.APPROVAL)  # of a call whose outcome nobody knows
    table.unsure = []
    assert table.person.answer(TaskStatus.APPROVAL)  # what was said is about to be looked at
    assert not table.person.answer(TaskStatus.CLIENT_TOOL_TURN)
    assert not table.person.answer(TaskStatus.PAUSED)
    assert table.prompts == []


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("y", ApprovalInput(True)),
        (" YES ", ApprovalInput(True)),
        ("n", ApprovalInput(False)),
        ("no  not today ", ApprovalInput(False, reason="not today")),
        ('{"a": {"b": 1}}', ApprovalInput(True, {"a": {"b": 1}})),
        ("{}", ApprovalInput(True, {})),
        ("yes but", "say y, n, n REASON, or a JSON object"),
        ("never", "say y, n, n REASON, or a JSON object"),
    ],
)
def test_read_verdict(line: str, verdict: ApprovalInput | str) -> None:
    assert parse_approval(line) == verdict

"""The questions to a user at the terminal, and the controls that the answers send."""

import io
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from roboco import TaskStatus, TransientError
from roboco.cli.interactive.live_view import LiveView
from roboco.cli.interactive.user import ApprovalInput, TerminalUser, parse_approval
from roboco.cli.terminal.screen import Screen
from roboco.client.pending_actions import PendingActions
from roboco.client.task import Task
from roboco.domain.history.part import ToolCall
from roboco.domain.team.tool_listing import PartDifference, ToolDifference


class TerminalSession:
    """A user who types these lines on a screen, and a task that records its controls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: str | BaseException) -> None:
        self.controls: list[tuple[str, ...]] = []
        self.refuses: Exception | None = None
        self.calls: list[ToolCall] = []
        self.unresolved: list[ToolCall] = []
        self.changed: dict[str, ToolDifference] = {}
        self.prompts: list[str] = []
        self._lines = iter(lines)
        self._file = io.StringIO()
        self.view = LiveView(Screen(self._file))
        self.user = TerminalUser(cast(Task, self), cast(PendingActions, self), Screen(self._file), self.view)
        monkeypatch.setattr("roboco.cli.interactive.user.read_line", self._input)
        monkeypatch.setattr("roboco.cli.interactive.user.input_waits", lambda: True)

    @property
    def screen(self) -> list[str]:
        return self._file.getvalue().splitlines()

    def send(self, message: str) -> None:
        self._record("send", message)

    def interrupt(self, message: str) -> None:
        self._record("interrupt", message)

    def approve(self, call_id: str, args: dict[str, Any] | None = None) -> None:
        self._record("approve", call_id, str(args))

    def deny(self, call_id: str, reason: str = "") -> None:
        self._record("deny", call_id, reason)

    def unapproved(self) -> list[ToolCall]:
        return self.calls

    def unknown(self) -> list[ToolCall]:
        return self.unresolved

    def changes(self) -> dict[str, ToolDifference]:
        return self.changed

    def _record(self, *control: str) -> None:
        if self.refuses:
            raise self.refuses
        self.controls.append(control)

    def _input(self, prompt: str) -> str:
        self.prompts.append(prompt)
        line = next(self._lines)
        if isinstance(line, BaseException):
            raise line
        return line


OpenSession = Callable[..., TerminalSession]


@pytest.fixture
def open_session(monkeypatch: pytest.MonkeyPatch) -> OpenSession:
    return lambda *lines: TerminalSession(monkeypatch, *lines)


def call(index: int = 1, **args: Any) -> ToolCall:
    return ToolCall(id=f"tc_{index}", tool_name="pay", args=args)


@pytest.mark.parametrize("lines", [("",), (EOFError(),), ("  ", "")])
def test_an_empty_interjection_sends_nothing_and_says_so(open_session: OpenSession, lines: Iterable[Any]) -> None:
    session = open_session(*lines)
    assert not session.user.interject()
    assert session.controls == []
    assert session.screen[-1] == "no message: the task continues"


def test_an_interjection_during_an_outage_may_be_repeated(open_session: OpenSession) -> None:
    session = open_session("be brief", "")
    session.refuses = TransientError("redis does not answer")
    assert not session.user.interject()
    assert session.screen[-1] == "redis does not answer; Ctrl-C asks again"


def test_approval_is_asked_for_again_until_the_answer_is_valid(open_session: OpenSession) -> None:
    session = open_session("perhaps", "{", "[1]", "Y")
    session.calls = [call()]
    assert session.user.answer(TaskStatus.APPROVAL)
    assert session.controls == [("approve", "tc_1", "None")]
    assert session.screen.count("say y, n, n REASON, or a JSON object") == 2
    assert any(line.startswith("this is no JSON: ") for line in session.screen)


@pytest.mark.parametrize(
    ("line", "control"),
    [
        ("n not today", ("deny", "tc_1", "not today")),
        ('{"a": 1}', ("approve", "tc_1", "{'a': 1}")),
        ("", None),
    ],
)
def test_a_person_denies_or_changes_a_call_or_leaves_it(
    open_session: OpenSession, line: str, control: tuple[str, ...] | None
) -> None:
    session = open_session(line)
    session.calls = [call()]
    assert session.user.answer(TaskStatus.APPROVAL) == (control is not None)
    assert session.controls == ([] if control is None else [control])


def test_approval_shows_the_arguments_in_full(open_session: OpenSession) -> None:
    session = open_session("y")
    session.calls = [call(text="x" * 500, to="\x1b[2J\u202e\x7f")]
    session.user.answer(TaskStatus.APPROVAL)
    whole = "\n".join(session.screen)
    assert "x" * 500 in whole
    assert r"\u001b[2J\u202e\u007f" in whole
    assert '\n     "text": "x' in whole  # a line for each argument


def test_changed_tool_is_shown_before_it_is_approved(open_session: OpenSession) -> None:
    session = open_session("y")
    session.calls = [call()]
    part = PartDifference(part="description", before='"Buy."', after='"Buy\u202e."')
    session.changed = {"tc_1": ToolDifference(call_id="tc_1", server="shop", tool="buy", parts=(part,))}
    session.user.answer(TaskStatus.APPROVAL)
    assert session.screen[4:8] == [
        "── tool buy of MCP server shop has changed · call tc_1",
        "   description",
        '     was "Buy."',
        r'     now "Buy\u202e."',
    ]
    assert session.screen[8].startswith("approve the change? y, n [REASON]; this call does not run")


def test_the_user_is_not_asked_if_no_approval_helps(open_session: OpenSession) -> None:
    session = open_session()
    session.unresolved = [call()]
    assert not session.user.answer(TaskStatus.APPROVAL)  # the outcome of a call is unknown
    session.unresolved = []
    assert session.user.answer(TaskStatus.APPROVAL)  # the coordinator has yet to apply the approvals
    assert not session.user.answer(TaskStatus.CLIENT_TOOL_TURN)
    assert not session.user.answer(TaskStatus.PAUSED)
    assert session.prompts == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y", ApprovalInput(True)),
        (" YES ", ApprovalInput(True)),
        ("n", ApprovalInput(False)),
        ("no  not today ", ApprovalInput(False, reason="not today")),
        ('{"a": {"b": 1}}', ApprovalInput(True, {"a": {"b": 1}})),
        ("yes but", "say y, n, n REASON, or a JSON object"),
    ],
)
def test_parse_approval_reads_decision_reason_and_arguments(line: str, expected: ApprovalInput | str) -> None:
    assert parse_approval(line) == expected

"""Session: what clients show of a task is the same, whenever they asked for it and however often."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.session.goal import SessionGoal, goals_of
from roboco.domain.session.session import (
    ContinuationToken,
    Lineage,
    MessageStatus,
    Session,
    SessionDelta,
    SessionMessage,
    SessionRole,
    SessionText,
    TurnInFlight,
    delta,
    message_of,
    messages_of,
    title_of,
    turn_message,
)
from roboco.domain.status import TaskStatus
from roboco.domain.stream.merged import Cursor
from roboco.errors import UsageError
from tests.unit.domain.steps import START, TASK, Line, artifact, call, failed, histories, result, steps_of, text


class Task:
    """One task as it grows: what is in its history, and what is known of its turn."""

    def __init__(self) -> None:
        self.lines: list[Line] = [("user", "go")]
        self.steps = steps_of(*self.lines)
        self.turn: TurnInFlight | None = None
        self.generation = 0
        self.happened = 0

    def do(self, name: str) -> None:
        """Let one thing happen."""
        self.happened += 1
        getattr(self, name)()

    def select(self) -> None:
        """A turn is handed out, if none is in flight."""
        seq = len(self.steps)
        self.turn = self.turn or TurnInFlight(seq, "one", step_id_at(TASK, seq), 1, False, "")

    def say(self) -> None:
        """A worker has the turn, and its text grows."""
        self.select()
        if self.turn:
            said = f"{self.turn.text}{self.happened} "
            self.turn = replace(self.turn, started=True, text=said)

    def restart(self) -> None:
        """The turn begins again."""
        if self.turn:
            self.turn = replace(self.turn, attempt=self.turn.attempt + 1, started=False, text="")

    def drop(self) -> None:
        """The turn is given up, and its text is void."""
        self.turn = None

    def commit(self) -> None:
        """The turn becomes a step."""
        if self.turn:
            self._append(("one", self.turn.text))

    def use_tool(self) -> None:
        """The turn becomes a step with a call, whose result may come later."""
        if self.turn:
            self._append(("one", [text(self.turn.text), call(f"tc_{len(self.steps)}", "look")]))

    def answer(self) -> None:
        """The result of the last step's call comes in."""
        if calls := self.steps[-1].calls:
            self._append(("tool_executor", [result(calls[0].id, self.happened)]))

    def user(self) -> None:
        """A message of the user takes the place of the turn."""
        self._append(("user", f"message {self.happened}"))

    def wipe(self) -> None:
        """Everything is lost but the history."""
        self.generation += 1
        self.turn = None

    def _append(self, line: Line) -> None:
        self.lines.append(line)
        self.steps = steps_of(*self.lines)
        self.turn = None


class Client:
    """Holds messages by index, and the token of the last delta."""

    def __init__(self) -> None:
        self.token = ContinuationToken()
        self.messages: dict[int, SessionMessage] = {}

    def read(self, generation: int, steps: list[TaskStep], turn: TurnInFlight | None) -> None:
        """Ask once for what is new."""
        token = ContinuationToken.parse(str(self.token))
        new = steps[token.steps :]
        end = token.steps + len(new)
        now = ContinuationToken(f"{generation:x}", 0, 0, end, turn.attempt if turn else 0)
        names_from = self._before(steps, token.steps)
        messages, rewind_to = delta(token, now, new, turn, names_from)
        sent = SessionDelta(continuation_token=str(now), messages_by_idx=messages, rewind_to=rewind_to)
        self.apply(SessionDelta.model_validate_json(sent.model_dump_json()))

    def apply(self, came: SessionDelta) -> None:
        """Drop what is void, then put in what is new."""
        assert came.rewind_to in (None, self.token.steps), "a step was dropped"
        if came.rewind_to is not None:
            self.messages = {index: one for index, one in self.messages.items() if index < came.rewind_to}
        self.messages |= came.messages_by_idx
        self.token = ContinuationToken.parse(came.continuation_token)

    @staticmethod
    def _before(steps: list[TaskStep], seq: int) -> TaskStep | None:
        return steps[min(seq, len(steps)) - 1] if seq else None


def everything(task: Task) -> dict[int, SessionMessage]:
    """What a client holds that reads everything at once."""
    client = Client()
    client.read(task.generation, task.steps, task.turn)
    return client.messages


HAPPENS = st.sampled_from(["select", "say", "say", "restart", "drop", "commit", "use_tool", "answer", "user", "wipe"])


@settings(max_examples=300)
@given(st.lists(st.tuples(HAPPENS, st.booleans()), max_size=20))
def test_a_client_that_applies_deltas_holds_what_one_holds_that_reads_everything(run: list[tuple[str, bool]]) -> None:
    task, client = Task(), Client()
    for name, reads in [*run, ("select", True), ("drop", True)]:
        task.do(name)
        if reads:
            client.read(task.generation, task.steps, task.turn)
            assert client.messages == everything(task)
    assert client.messages == dict(enumerate(messages_of(task.steps)))


@settings(max_examples=300)
@given(st.lists(st.tuples(HAPPENS, st.sampled_from(["", "now", "steps", "turn"])), max_size=20))
def test_steps_and_turn_that_were_read_at_two_moments_leave_nothing_behind(run: list[tuple[str, str]]) -> None:
    """The steps or the turn are those from before the last thing that happened."""
    task, client = Task(), Client()
    for name, read in run:
        steps, turn = task.steps, task.turn
        task.do(name)
        if read:
            old_or_new = (steps if read == "steps" else task.steps, turn if read == "turn" else task.turn)
            client.read(task.generation, *old_or_new)
        had = range(client.token.steps)
        assert [client.messages[seq] for seq in had] == list(messages_of(task.steps))[: len(had)]
    client.read(task.generation, task.steps, task.turn)
    assert client.messages == everything(task)


@given(histories(closed=False))
def test_each_step_is_one_message_wherever_the_reading_begins(steps: list[TaskStep]) -> None:
    messages = list(messages_of(steps))
    assert [one.step_id for one in messages] == [step.step_id for step in steps]
    for cut in range(1, len(steps)):
        assert list(messages_of(steps[cut:], steps[cut - 1])) == messages[cut:]


TURN = TurnInFlight(1, "one", "step_1", 1, True, "he")
STEPS = steps_of(("user", "go"), ("one", "hello"))


def rewound(steps: list[TaskStep], turn: TurnInFlight | None, held: int = 1, generation: str = "a") -> int | None:
    """From where on a client drops what it holds, which has one step and of the next the text of attempt `held`."""
    token = ContinuationToken("a", 3, 1, 1, held)
    return delta(token, ContinuationToken(generation, 4, 2, 1 + len(steps)), steps, turn, STEPS[0])[1]


@pytest.mark.parametrize(
    ("steps", "turn", "rewind_to"),
    [
        ([], None, 1),
        ([], TURN, None),
        ([], replace(TURN, text="hel"), None),
        ([], replace(TURN, attempt=2, started=False, text=""), 1),
        ([], replace(TURN, seq=2), 1),
        (STEPS[1:], None, None),
        (STEPS[1:], replace(TURN, seq=2, attempt=2), None),
    ],
)
def test_a_client_drops_text_that_nothing_replaces(
    steps: list[TaskStep], turn: TurnInFlight | None, rewind_to: int | None
) -> None:
    assert rewound(steps, turn) == rewind_to
    assert rewound(steps, turn, held=0) is None


def test_attempts_count_within_a_generation() -> None:
    assert rewound([], TURN, generation="b") == 1
    assert rewound([], None, generation="b") == 1
    assert rewound(STEPS[1:], None, generation="b") is None


def test_a_turn_has_the_index_after_the_steps_and_the_time_of_the_last_one() -> None:
    messages, _ = delta(ContinuationToken(), ContinuationToken(), STEPS, replace(TURN, seq=2), None)
    assert [one.status for one in messages.values()] == ["completed", "completed", "generating"]
    assert list(messages) == [0, 1, 2]
    assert messages[2].created == STEPS[1].created_at
    messages, _ = delta(ContinuationToken(steps=1), ContinuationToken(), [], TURN, STEPS[0])
    assert messages == {1: turn_message(TURN, STEPS[0].created_at)}


@pytest.mark.parametrize("seq", [0, 1, 3])
def test_a_turn_that_does_not_follow_the_steps_is_left_out(seq: int) -> None:
    messages, _ = delta(ContinuationToken(), ContinuationToken(), STEPS, replace(TURN, seq=seq), None)
    assert messages == dict(enumerate(messages_of(STEPS)))


def test_a_turn_without_the_step_before_it_is_refused() -> None:
    with pytest.raises(ValueError, match="turn at 1 needs the step before it"):
        delta(ContinuationToken(steps=1), ContinuationToken(), [], TURN, None)


def test_the_message_of_a_turn() -> None:
    begun = turn_message(TURN, START)
    assert (begun.role, begun.status, begun.text) == (SessionRole.ASSISTANT, MessageStatus.GENERATING, "he")
    assert (begun.agent_name, begun.step_id, begun.created) == ("one", "step_1", START)
    handed_out = turn_message(replace(TURN, started=False, text=""), START)
    assert (handed_out.status, handed_out.content) == (MessageStatus.NOT_STARTED, [])


def test_what_a_message_says_of_its_parts() -> None:
    failing = result("tc_2", error="no such file")
    failing["tool_result"]["runtime_ms"] = 5
    steps = steps_of(
        ("user", "go"),
        ("one", [text("look"), call("tc_1", "look", {"a": 1}), call("tc_2", "find")]),
        ("tool_executor", [result("tc_1", {"b": 2}), artifact("a.txt"), failing, result("tc_9")]),
        ("orchestrator", [failed("limit", "too long")]),
    )
    _, asked, answered, ended = [one.model_dump(mode="json")["content"] for one in messages_of(steps)]
    use = {"content_type": "tool_use"}
    assert asked == [
        {"content_type": "text", "text": "look"},
        use | {"tool_name": "look", "tool_use_id": "tc_1", "input": {"a": 1}},
        use | {"tool_name": "find", "tool_use_id": "tc_2", "input": {}},
    ]
    told = {"content_type": "tool_result", "runtime_ms": 0, "status": "success"}
    error = told | {"runtime_ms": 5, "status": "error", "raw_response": "no such file"}
    assert answered == [
        told | {"tool_name": "look", "tool_use_id": "tc_1", "raw_response": {"b": 2}},
        {"content_type": "artifact", "uri": "file://artifacts/a.txt", "mime_type": "text/plain", "size": 0},
        error | {"tool_name": "find", "tool_use_id": "tc_2"},
        told | {"tool_name": "", "tool_use_id": "tc_9", "raw_response": None},
    ]
    assert ended == [{"content_type": "error", "error_message": "too long", "error_code": "limit"}]


@pytest.mark.parametrize(
    ("line", "role", "status"),
    [
        (("user", "go"), "user", "completed"),
        (("user", [text("go"), failed("stopped")]), "user", "completed"),
        (("one", "hi"), "assistant", "completed"),
        (("one", "hi", {"interrupted": True}), "assistant", "cancelled"),
        (("one", "hi", {"interrupted": "yes"}), "assistant", "completed"),
        (("one", [failed("model")], {"interrupted": True}), "assistant", "cancelled"),
        (("one", [text("hi"), failed("model")]), "assistant", "failed"),
        (("one", [failed("stopped")]), "assistant", "failed"),
        (("tool_executor", [result("tc_1", error="why")]), "system", "completed"),
        (("tool_executor", [failed("tool")]), "system", "completed"),
        (("orchestrator", "go on"), "system", "completed"),
        (("orchestrator", [failed("limit")]), "system", "failed"),
        (("orchestrator", [failed("stopped")]), "system", "cancelled"),
    ],
)
def test_who_speaks_and_how_it_went(line: Line, role: str, status: str) -> None:
    [step] = steps_of(line)
    message = message_of(step, {})
    assert (message.role, message.status) == (role, status)
    assert message.status.terminal
    assert message.complete == (status == "completed")
    assert message.unsuccessful == (status in ("failed", "cancelled"))
    assert message.text == step.text


def test_what_is_still_to_come_is_not_terminal() -> None:
    assert [status for status in MessageStatus if not status.terminal] == ["not_started", "generating"]


def declared(*names: str) -> dict[str, Any]:
    """The metadata of a user's message with goals."""
    return {"goals": [{"name": name, "description": f"the {name}", "schema": {}} for name in names]}


def stand(steps: list[TaskStep]) -> list[tuple[str, str]]:
    """The goals with their status."""
    return [(goal.name, goal.status) for goal in goals_of(steps)]


def test_a_goal_is_achieved_by_the_result_of_its_call() -> None:
    steps = steps_of(
        ("user", "go", declared("plan", "sum")),
        ("one", [call("tc_1", "achieve_sum", {"n": 1}), call("tc_2", "achieve_plan"), call("tc_3", "achieve_other")]),
        ("tool_executor", [result("tc_1", "ok"), result("tc_2", error="bad"), result("tc_3"), result("tc_9")]),
    )
    plan: dict[str, Any] = {"name": "plan", "description": "the plan", "declared_at": START, "goal_index": 0}
    plan |= {"status": "open", "outcome_schema": {}}
    done = {"status": "achieved", "achieved_at": steps[2].created_at, "tool_use_id": "tc_1", "outcome": {"n": 1}}
    assert [goal.model_dump(exclude_none=True) for goal in goals_of(steps)] == [
        plan,
        plan | {"name": "sum", "description": "the sum", "goal_index": 1} | done,
    ]
    assert stand(steps[:2]) == [("plan", "open"), ("sum", "open")]


def test_newer_goals_put_an_end_to_older_ones() -> None:
    steps = steps_of(
        ("user", "go", declared("a", "b")),
        ("one", [call("tc_1", "achieve_b")]),
        ("tool_executor", [result("tc_1")]),
        ("user", "go on", {"goals": []}),
        ("user", "more", declared("a")),
        ("one", [call("tc_2", "achieve_a")]),
        ("tool_executor", [result("tc_2")]),
    )
    assert stand(steps[:4]) == [("a", "open"), ("b", "achieved")]
    assert stand(steps[:5]) == [("a", "failed"), ("b", "achieved"), ("a", "open")]
    assert stand(steps) == [("a", "failed"), ("b", "achieved"), ("a", "achieved")]
    assert [goal.goal_index for goal in goals_of(steps)] == [0, 1, 2]


def test_the_newest_open_goal_of_a_name_is_achieved_first() -> None:
    steps = steps_of(
        ("user", "go", declared("a", "a")), ("one", [call("tc_1", "achieve_a")]), ("tool_executor", [result("tc_1")])
    )
    assert stand(steps) == [("a", "open"), ("a", "achieved")]


def test_a_goal_is_achieved_once() -> None:
    steps = steps_of(
        ("user", "go", declared("a")),
        ("one", [call("tc_1", "achieve_a", {"n": 1}), call("tc_2", "achieve_a", {"n": 2})]),
        ("tool_executor", [result("tc_1"), result("tc_2")]),
    )
    assert [(goal.tool_use_id, goal.outcome) for goal in goals_of(steps)] == [("tc_1", {"n": 1})]


@pytest.mark.parametrize(("code", "status"), [("goals", "failed"), ("limit", "open")])
def test_open_goals_fail_when_the_orchestrator_gives_them_up(code: str, status: str) -> None:
    assert stand(steps_of(("user", "go", declared("a")), ("orchestrator", [failed(code)]))) == [("a", status)]
    assert stand(steps_of(("user", "go", declared("a")), ("one", [failed(code)]))) == [("a", "open")]


@pytest.mark.parametrize("goals", [None, "plan", {"name": "plan"}, [None, "plan", {}, {"name": 5}]])
def test_strange_goals_do_no_harm(goals: Any) -> None:
    assert goals_of(steps_of(("user", "go", {"goals": goals}))) == []


def test_only_a_user_declares_and_only_a_tool_achieves() -> None:
    steps = steps_of(
        ("user", "go", declared("a")),
        ("one", [call("tc_1", "achieve_a")], declared("b")),
        ("one", [result("tc_1")]),
        ("tool_executor", [result("tc_1")]),
    )
    assert stand(steps) == [("a", "open")]


@pytest.mark.parametrize(
    ("said", "metadata", "title"),
    [
        ("write\na book", {}, "write"),
        (" \n\t\n  a book \n", {}, "a book"),
        ("write", {"title": "My book"}, "My book"),
        ("write", {"title": ""}, "write"),
        ("write", {"title": 5}, "write"),
        ("x" * 80, {}, "x" * 80),
        ("x" * 81, {}, "x" * 79 + "…"),
        ("x" * 78 + " and more", {}, "x" * 78 + "…"),
        ("", {}, ""),
    ],
)
def test_titles(said: str, metadata: dict[str, Any], title: str) -> None:
    assert title_of(steps_of(("user", said, metadata))[0]) == title


@given(st.builds(ContinuationToken, st.text("0123456789abcdef"), *[st.integers(0, 10**15 - 1)] * 4))
def test_tokens_are_texts_that_are_read_back(token: ContinuationToken) -> None:
    assert ContinuationToken.parse(str(token)) == token


@pytest.mark.parametrize(
    "token",
    ["", "x", "a.1.2.3", "a.1.2.3.-4", "a.1.2.3.4.5", "g.1.2.3.4", "a.1.2.3.4\n", "a.1.2.3.١", "a.1.2.3." + "9" * 5000],
)
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match=r"token '.*' is not one of a session or a delta"):
        ContinuationToken.parse(token)


def test_a_cursor_is_no_token() -> None:
    with pytest.raises(UsageError, match="token"):
        ContinuationToken.parse(str(Cursor()))


def test_a_session_is_json_that_is_read_back() -> None:
    steps = steps_of(
        ("user", "go", declared("a")), ("one", [text("x"), call("tc_1")]), ("tool_executor", [result("tc_1")])
    )
    session = Session(
        task_id=TASK,
        status=TaskStatus.RUNNING,
        reason="",
        title=title_of(steps[0]),
        created=START,
        messages=list(messages_of(steps)),
        goals=goals_of(steps),
        lineage=Lineage(forked_from_task_id="t0", forked_from_seq=0),
        continuation_token=str(ContinuationToken(steps=3)),
    )
    assert Session.model_validate_json(session.model_dump_json()) == session
    assert json.loads(session.model_dump_json())["messages"][0]["content"] == [{"content_type": "text", "text": "go"}]


def test_a_delta_of_nothing_leaves_all_as_it_was() -> None:
    nothing = SessionDelta(continuation_token=str(ContinuationToken()))
    assert nothing.model_dump(exclude_none=True) == {"continuation_token": ".0.0.0.0", "messages_by_idx": {}}


def test_what_newer_releases_add_is_kept() -> None:
    assert SessionText.model_validate({"text": "x", "of_tomorrow": 1}).model_dump()["of_tomorrow"] == 1
    record = {"name": "a", "description": "", "goal_index": 0, "declared_at": START, "of_tomorrow": 1}
    assert SessionGoal.model_validate(record).model_dump()["of_tomorrow"] == 1

"""Session: a client that applies deltas holds the same messages as one that reads everything."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.session.goal import goals_of
from roboco.domain.session.session import (
    ContinuationToken,
    SessionDelta,
    SessionMessage,
    TurnInFlight,
    delta,
    message_of,
    messages_of,
)
from roboco.errors import UsageError
from tests.unit.domain.steps import START, TASK, Line, artifact, call, failed, result, steps_of, text


class GrowingTask:
    """A task that grows: its history, and its turn in flight."""

    def __init__(self) -> None:
        self.lines: list[Line] = [("user", "go")]
        self.steps = steps_of(*self.lines)
        self.turn: TurnInFlight | None = None
        self.generation = 0
        self.count = 0

    def do(self, name: str) -> None:
        """Apply the operation of this name."""
        self.count += 1
        getattr(self, name)()

    def select(self) -> None:
        """Dispatch a turn, if none is in flight."""
        seq = len(self.steps)
        self.turn = self.turn or TurnInFlight(seq, "one", step_id_at(TASK, seq), 1, False, "")

    def say(self) -> None:
        """Have a worker extend the text of the turn."""
        self.select()
        if self.turn:
            content = f"{self.turn.text}{self.count} "
            self.turn = replace(self.turn, started=True, text=content)

    def restart(self) -> None:
        """Restart the turn."""
        if self.turn:
            self.turn = replace(self.turn, attempt=self.turn.attempt + 1, started=False, text="")

    def drop(self) -> None:
        """Abandon the turn, whose text becomes void."""
        self.turn = None

    def commit(self) -> None:
        """Commit the turn as a step."""
        if self.turn:
            self._append(("one", self.turn.text))

    def use_tool(self) -> None:
        """Commit the turn as a step with a call, whose result may follow."""
        if self.turn:
            self._append(("one", [text(self.turn.text), call(f"tc_{len(self.steps)}", "look")]))

    def answer(self) -> None:
        """Commit the result of the last step's call."""
        if calls := self.steps[-1].calls:
            self._append(("tool_executor", [result(calls[0].id, self.count)]))

    def user(self) -> None:
        """Commit a message of the user in place of the turn."""
        self._append(("user", f"message {self.count}"))

    def wipe(self) -> None:
        """Lose everything except the history."""
        self.generation += 1
        self.turn = None

    def _append(self, line: Line) -> None:
        self.lines.append(line)
        self.steps = steps_of(*self.lines)
        self.turn = None


class DeltaClient:
    """A client that holds messages by index, and the token of the last delta."""

    def __init__(self) -> None:
        self.token = ContinuationToken()
        self.messages: dict[int, SessionMessage] = {}

    def read(self, generation: int, steps: list[TaskStep], turn: TurnInFlight | None) -> None:
        """Read one delta, and apply it."""
        token = ContinuationToken.parse(str(self.token))
        new = steps[token.steps :]
        end = token.steps + len(new)
        now = ContinuationToken(f"{generation:x}", 0, 0, end, turn.attempt if turn else 0)
        names_from = self._step_before(steps, token.steps)
        messages, rewind_to = delta(token, now, new, turn, names_from)
        sent = SessionDelta(continuation_token=str(now), messages_by_idx=messages, rewind_to=rewind_to)
        self.apply(SessionDelta.model_validate_json(sent.model_dump_json()))

    def apply(self, new: SessionDelta) -> None:
        """Drop void messages, then add the new ones."""
        assert new.rewind_to in (None, self.token.steps), "a step was dropped"
        if new.rewind_to is not None:
            self.messages = {index: one for index, one in self.messages.items() if index < new.rewind_to}
        self.messages |= new.messages_by_idx
        self.token = ContinuationToken.parse(new.continuation_token)

    @staticmethod
    def _step_before(steps: list[TaskStep], seq: int) -> TaskStep | None:
        return steps[min(seq, len(steps)) - 1] if seq else None


def read_everything(task: GrowingTask) -> dict[int, SessionMessage]:
    """Return the messages of a client that reads everything in one delta."""
    client = DeltaClient()
    client.read(task.generation, task.steps, task.turn)
    return client.messages


OPERATIONS = st.sampled_from(
    ["select", "say", "say", "restart", "drop", "commit", "use_tool", "answer", "user", "wipe"]
)


@settings(max_examples=150)
@given(st.lists(st.tuples(OPERATIONS, st.sampled_from(["", "now", "steps", "turn"])), max_size=20))
def test_a_client_that_applies_deltas_holds_all_messages(run: list[tuple[str, str]]) -> None:
    """Steps and turn may be read at two moments: one of them is then as before the last operation."""
    task, client = GrowingTask(), DeltaClient()
    for name, read in run:
        steps, turn = task.steps, task.turn
        task.do(name)
        if read:
            old_or_new = (steps if read == "steps" else task.steps, turn if read == "turn" else task.turn)
            client.read(task.generation, *old_or_new)
            assert read != "now" or client.messages == read_everything(task)
        had = range(client.token.steps)
        assert [client.messages[seq] for seq in had] == list(messages_of(task.steps))[: len(had)]
    client.read(task.generation, task.steps, task.turn)
    assert client.messages == read_everything(task)


TURN = TurnInFlight(1, "one", "step_1", 1, True, "he")
STEPS = steps_of(("user", "go"), ("one", "hello"))


def rewind_index(steps: list[TaskStep], turn: TurnInFlight | None, held: int = 1, generation: str = "a") -> int | None:
    """Return the index from which a client drops messages. It holds one step and text of attempt `held` of the next."""
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
    assert rewind_index(steps, turn) == rewind_to
    assert rewind_index(steps, turn, held=0) is None


def test_a_turn_without_the_step_before_it_is_refused() -> None:
    with pytest.raises(ValueError, match="turn at 1 needs the step before it"):
        delta(ContinuationToken(steps=1), ContinuationToken(), [], TURN, None)


def test_a_message_has_the_content_of_its_parts() -> None:
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
    success = {"content_type": "tool_result", "runtime_ms": 0, "status": "success"}
    error = success | {"runtime_ms": 5, "status": "error", "raw_response": "no such file"}
    assert answered == [
        success | {"tool_name": "look", "tool_use_id": "tc_1", "raw_response": {"b": 2}},
        {"content_type": "artifact", "uri": "file://artifacts/a.txt", "mime_type": "text/plain", "size": 0},
        error | {"tool_name": "find", "tool_use_id": "tc_2"},
        success | {"tool_name": "", "tool_use_id": "tc_9", "raw_response": None},
    ]
    assert ended == [{"content_type": "error", "error_message": "too long", "error_code": "limit"}]


@pytest.mark.parametrize(
    ("line", "role", "status"),
    [
        (("user", "go"), "user", "completed"),
        (("user", [text("go"), failed("stopped")]), "user", "completed"),
        (("one", "hi"), "assistant", "completed"),
        (("one", "hi", {"interrupted": True}), "assistant", "cancelled"),
        (("one", [text("hi"), failed("model")]), "assistant", "failed"),
        (("tool_executor", [result("tc_1", error="why")]), "system", "completed"),
        (("orchestrator", [failed("limit")]), "system", "failed"),
        (("orchestrator", [failed("stopped")]), "system", "cancelled"),
    ],
)
def test_a_message_has_the_role_and_status_of_its_step(line: Line, role: str, status: str) -> None:
    [step] = steps_of(line)
    message = message_of(step, {})
    assert (message.role, message.status) == (role, status)
    assert message.status.is_terminal()
    assert message.complete == (status == "completed")
    assert message.unsuccessful == (status in ("failed", "cancelled"))
    assert message.text == step.text


def goals_metadata(*names: str) -> dict[str, Any]:
    """Return the metadata of a user's message with these goals."""
    return {"goals": [{"name": name, "description": f"the {name}", "schema": {}} for name in names]}


def goal_statuses(steps: list[TaskStep]) -> list[tuple[str, str]]:
    """Return the names of the goals with their statuses."""
    return [(goal.name, goal.status) for goal in goals_of(steps)]


def test_a_goal_is_achieved_by_the_result_of_its_call() -> None:
    steps = steps_of(
        ("user", "go", goals_metadata("plan", "sum")),
        ("one", [call("tc_1", "achieve_sum", {"n": 1}), call("tc_2", "achieve_plan"), call("tc_3", "achieve_other")]),
        ("tool_executor", [result("tc_1", "ok"), result("tc_2", error="bad"), result("tc_3"), result("tc_9")]),
    )
    plan: dict[str, Any] = {"name": "plan", "description": "the plan", "declared_at": START, "goal_index": 0}
    plan |= {"declared_seq": 0}
    plan |= {"status": "open", "outcome_schema": {}}
    done = {"status": "achieved", "achieved_at": steps[2].created_at, "tool_use_id": "tc_1", "outcome": {"n": 1}}
    assert [goal.model_dump(exclude_none=True) for goal in goals_of(steps)] == [
        plan,
        plan | {"name": "sum", "description": "the sum", "goal_index": 1} | done,
    ]
    assert goal_statuses(steps[:2]) == [("plan", "open"), ("sum", "open")]


@pytest.mark.parametrize(("code", "status"), [("goals", "failed"), ("limit", "open")])
def test_open_goals_fail_when_the_orchestrator_abandons_them(code: str, status: str) -> None:
    assert goal_statuses(steps_of(("user", "go", goals_metadata("a")), ("orchestrator", [failed(code)]))) == [
        ("a", status)
    ]
    assert goal_statuses(steps_of(("user", "go", goals_metadata("a")), ("one", [failed(code)]))) == [("a", "open")]


def test_a_failed_goal_has_the_time_of_its_failure() -> None:
    steps = steps_of(("user", "go", goals_metadata("a")), ("one", "no"), ("user", "else", goals_metadata("b")))
    assert [(goal.status, goal.failed_at) for goal in goals_of(steps)] == [
        ("failed", steps[2].created_at),
        ("open", None),
    ]


@pytest.mark.parametrize(
    "token",
    ["", "a.1.2.3", "a.1.2.3.-4", "g.1.2.3.4", "a.1.2.3.4\n", "a.1.2.3.١", "a.1.2.3." + "9" * 5000],
)
def test_an_invalid_token_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match=r"token '.*' is not one of a session or a delta"):
        ContinuationToken.parse(token)

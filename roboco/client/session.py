"""Sessions: a task as a conversation, as a whole or as the changes since a token."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from roboco.domain.history.lineage import parent_of
from roboco.domain.history.state import ACHIEVED_GOALS
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import step_id_at
from roboco.domain.paths import history_path
from roboco.domain.session.goal import goals_of
from roboco.domain.session.session import ContinuationToken, Lineage, Session, SessionDelta, TurnInFlight, title_of
from roboco.domain.session.session import delta as session_delta
from roboco.domain.status import TaskStatus
from roboco.domain.stream.event import StreamChunk, parse_stream_message
from roboco.engine.engine import Engine
from roboco.engine.intake.at_rest import continues
from roboco.engine.record import recover
from roboco.errors import CorruptHistory
from roboco.ports.task_store import Phase, Snapshot


@dataclass(frozen=True)
class SessionPoll:
    """The changes of a session since a token, and its state at the same moment."""

    changes: SessionDelta
    """The changes. Its status is None if nothing has changed."""
    status: TaskStatus
    continues: bool
    """True if the task waits, but an item that it has accepted makes it continue as soon as a worker applies it."""


def session(engine: Engine, task_id: str) -> Session:
    """Return the whole task as a conversation. Raises UsageError if there is no such task."""
    whole = delta(engine, task_id, "")
    first = next(iter(_read_steps(engine, task_id, 0, 1)), None)
    if first is None:
        raise CorruptHistory(f"task {task_id!r} has no steps in its workspace; restore {history_path(task_id)!r}")
    fork, parent = engine.frozen_teams.own_fork_of(task_id, first), parent_of(task_id, first)
    return Session(
        task_id=task_id,
        status=whole.status or TaskStatus.QUEUED,
        reason=whole.reason or "",
        title=whole.title or "",
        model_profile=engine.frozen_teams.get(task_id).default_profile,
        created=first.created_at if fork is None else fork.created_at,
        messages=[whole.messages_by_idx[index] for index in sorted(whole.messages_by_idx)],
        goals=whole.goals or [],
        lineage=Lineage(
            forked_from_task_id=fork and fork.task_id,
            forked_from_seq=None if fork is None else fork.seq,
            forked_by=None if fork is None else fork.by,
            parent_task_id=parent and parent.task_id,
            parent_step_id=parent and parent.step_id,
        ),
        continuation_token=whole.continuation_token,
    )


def delta(engine: Engine, task_id: str, text: str) -> SessionDelta:
    """Return the changes since the delta that gave this token; without a token, the whole conversation.

    Raises UsageError if there is no such task, or if the token is invalid.
    """
    return poll(engine, task_id, text).changes


def poll(engine: Engine, task_id: str, text: str) -> SessionPoll:
    """Return the same changes as `delta`, and the state of the task at the same moment."""
    token = ContinuationToken.parse(text) if text else ContinuationToken()
    while (found := _poll(engine, task_id, text, token)) is None:
        continue  # the turn has ended while its text was read, so the next read finds another state
    return found


def _poll(engine: Engine, task_id: str, text: str, token: ContinuationToken) -> SessionPoll | None:
    """Return the changes since the token, or None if the text of the running turn is not in the log any more."""
    task = engine.task_store.load(task_id, 1) or recover.load_task(engine, task_id)  # Redis may have lost an open task
    nothing = SessionDelta(continuation_token=text, messages_by_idx={})
    if task is not None and text and _current_token(task) == token:
        return SessionPoll(nothing, task.status, continues(engine, task_id, task))
    if task is not None:
        task = engine.task_store.load(task_id, max(1, task.seq - token.steps + 1))
    if task is None:
        summary = engine.summaries.require(task_id)
        if text and token == ContinuationToken(steps=summary.steps):
            return SessionPoll(nothing, summary.status, False)
        current = _CurrentState(ContinuationToken(steps=summary.steps), summary.status, summary.reason, (), None)
        return SessionPoll(_delta_since(engine, task_id, token, current), summary.status, False)
    turn = _running_turn(engine, task_id, task)
    if turn is None and task.phase is Phase.TURN:
        return None
    current = _CurrentState(_current_token(task), task.status, task.reason, task.tail, turn)
    changes = _delta_since(engine, task_id, token, current)
    return SessionPoll(changes, task.status, continues(engine, task_id, task))


@dataclass(frozen=True)
class _CurrentState:
    """The state of a task, with some of its newest steps."""

    token: ContinuationToken
    status: TaskStatus
    reason: str
    tail: tuple[TaskStep, ...]
    turn: TurnInFlight | None


def _delta_since(engine: Engine, task_id: str, token: ContinuationToken, current: _CurrentState) -> SessionDelta:
    steps = _read_steps(engine, task_id, max(0, token.steps - 1), current.token.steps, current.tail)
    before = steps[0] if token.steps and steps else None
    fresh = [step for step in steps if step.seq >= token.steps]
    messages, rewind_to = session_delta(token, current.token, fresh, current.turn, before)
    first = token == ContinuationToken()
    return SessionDelta(
        continuation_token=str(current.token),
        messages_by_idx=messages,
        rewind_to=rewind_to,
        status=current.status,
        reason=current.reason,
        title=title_of(fresh[0]) if first and fresh else None,
        goals=goals_of(engine.histories.read(task_id)) if first or any(map(_concerns_goals, fresh)) else None,
    )


def _current_token(task: Snapshot) -> ContinuationToken:
    """Return the positions in the logs and steps of a task. Any change in a session changes one of these numbers."""
    attempt = task.attempt if task.phase is Phase.TURN else 0
    return ContinuationToken(task.generation, task.events, task.chunks, task.seq, attempt)


def _running_turn(engine: Engine, task_id: str, task: Snapshot) -> TurnInFlight | None:
    """Return the running turn, with the text that it had streamed by the time of the snapshot, or None.

    The result is None also if the log does not hold that text any more: the turn has ended since.
    """
    if task.phase is not Phase.TURN:
        return None
    step_id = step_id_at(task_id, task.seq)
    first = max(0, task.chunks - task.attempt_chunks) + 1
    texts: list[str] = []
    count = 0
    for line in engine.event_logs.chunks(task_id, first - 1) if task.attempt_chunks else ():
        chunk = parse_stream_message(json.loads(line))
        if chunk.seq > task.chunks or chunk.generation != task.generation:
            break
        count += 1
        texts += [chunk.text] if isinstance(chunk, StreamChunk) and chunk.type == "content_chunk" else []
    if first + count <= task.chunks and not _still_runs(engine, task_id, task):
        return None
    return TurnInFlight(task.seq, task.agent, step_id, task.attempt, bool(texts), "".join(texts))


def _still_runs(engine: Engine, task_id: str, task: Snapshot) -> bool:
    """Return True if the attempt of the snapshot has not ended. The commit of its step trims its chunks."""
    now = engine.task_store.load(task_id, 1)
    if now is None or now.phase is not Phase.TURN:
        return False
    return (now.generation, now.seq, now.attempt) == (task.generation, task.seq, task.attempt)


def _read_steps(engine: Engine, task_id: str, start: int, end: int, known: Sequence[TaskStep] = ()) -> list[TaskStep]:
    """Return the steps from `start` to before `end`; without a read, if `known` contains all of them."""
    if known and known[0].seq <= start:
        return [step for step in known if start <= step.seq < end]
    return [step for step in engine.histories.read(task_id, start) if step.seq < end]


def _concerns_goals(step: TaskStep) -> bool:
    ended = step.error is not None and step.error.code == "goals"
    return ended or ACHIEVED_GOALS in step.metadata or "goals" in step.metadata

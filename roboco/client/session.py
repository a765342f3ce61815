"""Sessions: a task as a conversation, as a whole or as the changes since a token."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

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
from roboco.engine.accept.at_rest import continues
from roboco.engine.engine import Engine, TaskStores, WorkspaceRecords
from roboco.engine.record import recover
from roboco.errors import CorruptHistory
from roboco.ports.snapshot import Phase, Snapshot


@dataclass(frozen=True)
class SessionPoll:
    """The changes of a session since a token, and its state at the same moment."""

    changes: SessionDelta
    """The changes. Its status is None if nothing has changed."""
    status: TaskStatus
    continues: bool
    """True if the task waits, but an item that it has accepted makes it continue as soon as a worker applies it."""


def session(engine: Engine, task_id: str, max_bytes: int | None = None) -> Session:
    """Return the task as a conversation, or as many of its first messages. Raises UsageError if there is no such task.

    `max_bytes` is as in `poll`.
    """
    found = poll(engine, task_id, "", max_bytes)
    whole = found.changes
    first = next(_read_steps(engine.workspace, task_id, 0, 1), None)
    if first is None:
        raise CorruptHistory(f"task {task_id!r} has no steps in its workspace; restore {history_path(task_id)!r}")
    fork, parent = engine.workspace.frozen_teams.own_fork_of(task_id, first), parent_of(task_id, first)
    return Session(
        task_id=task_id,
        status=found.status,
        reason=whole.reason or "",
        title=whole.title or "",
        model_profile=engine.workspace.frozen_teams.get(task_id).default_profile,
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
        more=whole.more,
    )


def poll(engine: Engine, task_id: str, text: str, max_bytes: int | None = None) -> SessionPoll:
    """Return the changes since the delta that gave this token, and the state of the task at the same moment.

    Without a token, all of the conversation is new. With `max_bytes`, the changes end before the step with which the
    steps have more bytes, at least one step later, and say that more follow. Raises UsageError if there is no such
    task, or if the token is invalid.
    """
    token = ContinuationToken.parse(text) if text else ContinuationToken()
    while (found := _poll(engine, task_id, text, token, max_bytes)) is None:
        continue  # the turn has ended while its text was read, so the next read finds another state
    return found


def _poll(
    engine: Engine, task_id: str, text: str, token: ContinuationToken, max_bytes: int | None
) -> SessionPoll | None:
    """Return the changes since the token, or None if the text of the running turn is not in the log any more."""
    task = engine.tasks.task_store.load(task_id, 1) or recover.load_task(
        engine, task_id
    )  # Redis may have lost an open task
    nothing = SessionDelta(continuation_token=text, messages_by_idx={})
    if task is not None and text and _current_token(task) == token:
        return SessionPoll(nothing, task.position.status, continues(engine.workspace, task_id, task))
    if task is not None:
        task = engine.tasks.task_store.load(task_id, max(1, task.position.seq - token.steps + 1))
    if task is None:
        summary = engine.workspace.summaries.require(task_id)
        if text and token == ContinuationToken(steps=summary.steps):
            return SessionPoll(nothing, summary.status, False)
        now = ContinuationToken(steps=summary.steps)
        current = _CurrentState(now, summary.status, summary.reason, (), None, max_bytes)
        return SessionPoll(_delta_since(engine.workspace, task_id, token, current), summary.status, False)
    turn = _running_turn(engine.tasks, task_id, task)
    if turn is None and task.position.phase is Phase.TURN:
        return None
    current = _CurrentState(
        _current_token(task), task.position.status, task.position.reason, task.steps.tail, turn, max_bytes
    )
    changes = _delta_since(engine.workspace, task_id, token, current)
    return SessionPoll(changes, task.position.status, continues(engine.workspace, task_id, task))


@dataclass(frozen=True)
class _CurrentState:
    """The state of a task, with some of its newest steps."""

    token: ContinuationToken
    status: TaskStatus
    reason: str
    tail: tuple[TaskStep, ...]
    turn: TurnInFlight | None
    max_bytes: int | None


def _delta_since(
    workspace: WorkspaceRecords, task_id: str, token: ContinuationToken, current: _CurrentState
) -> SessionDelta:
    steps = _read_steps(workspace, task_id, max(0, token.steps - 1), current.token.steps, current.tail)
    before = next(steps, None) if token.steps else None
    fresh, more = _first_page(steps, current.max_bytes)
    now = replace(current.token, steps=fresh[-1].seq + 1, turn_attempt=0) if more else current.token
    messages, rewind_to = session_delta(token, now, fresh, None if more else current.turn, before)
    first = token == ContinuationToken()
    return SessionDelta(
        continuation_token=str(now),
        messages_by_idx=messages,
        rewind_to=rewind_to,
        status=None if more else current.status,
        reason=current.reason,
        title=title_of(fresh[0]) if first and fresh else None,
        goals=goals_of(workspace.histories.read(task_id)) if first or any(map(_concerns_goals, fresh)) else None,
        more=more,
    )


def _current_token(task: Snapshot) -> ContinuationToken:
    """Return the positions in the logs and steps of a task. Any change in a session changes one of these numbers."""
    attempt = task.attempt.number if task.position.phase is Phase.TURN else 0
    return ContinuationToken(task.logs.generation, task.logs.events, task.logs.chunks, task.position.seq, attempt)


def _running_turn(tasks: TaskStores, task_id: str, task: Snapshot) -> TurnInFlight | None:
    """Return the running turn, with the text that it had streamed by the time of the snapshot, or None.

    The result is None also if the log does not hold that text any more: the turn has ended since.
    """
    if task.position.phase is not Phase.TURN:
        return None
    step_id = step_id_at(task_id, task.position.seq)
    first = max(0, task.logs.chunks - task.logs.attempt_chunks) + 1
    texts: list[str] = []
    count = 0
    for line in tasks.event_logs.chunks(task_id, first - 1) if task.logs.attempt_chunks else ():
        chunk = parse_stream_message(json.loads(line))
        if chunk.seq > task.logs.chunks or chunk.generation != task.logs.generation:
            break
        count += 1
        texts += [chunk.text] if isinstance(chunk, StreamChunk) and chunk.type == "content_chunk" else []
    if first + count <= task.logs.chunks and not _still_runs(tasks, task_id, task):
        return None
    return TurnInFlight(
        task.position.seq, task.position.agent, step_id, task.attempt.number, bool(texts), "".join(texts)
    )


def _still_runs(tasks: TaskStores, task_id: str, task: Snapshot) -> bool:
    """Return True if the attempt of the snapshot has not ended. The commit of its step trims its chunks."""
    now = tasks.task_store.load(task_id, 1)
    if now is None or now.position.phase is not Phase.TURN:
        return False
    return (now.logs.generation, now.position.seq, now.attempt.number) == (
        task.logs.generation,
        task.position.seq,
        task.attempt.number,
    )


def _read_steps(
    workspace: WorkspaceRecords, task_id: str, start: int, end: int, known: Sequence[TaskStep] = ()
) -> Iterator[TaskStep]:
    """Yield the steps from `start` to before `end`; without a read, if `known` contains all of them."""
    if known and known[0].seq <= start:
        return (step for step in known if start <= step.seq < end)
    return takewhile(lambda step: step.seq < end, workspace.histories.read(task_id, start))


def _first_page(steps: Iterable[TaskStep], max_bytes: int | None) -> tuple[list[TaskStep], bool]:
    """Return the first steps with at most these bytes, at least one, and whether there are more."""
    page, size = list[TaskStep](), 0
    for step in steps:
        size += 0 if max_bytes is None else len(step.line().encode())
        if page and max_bytes is not None and size > max_bytes:
            return page, True
        page.append(step)
    return page, False


def _concerns_goals(step: TaskStep) -> bool:
    ended = step.error is not None and step.error.code == "goals"
    return ended or ACHIEVED_GOALS in step.metadata or "goals" in step.metadata

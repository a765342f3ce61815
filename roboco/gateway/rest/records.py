"""records: the history, the conversation, the explanations and the usage of a task."""

from typing import Annotated, Any, Final

from fastapi import Query

from roboco.client.context_report import ContextReport
from roboco.client.task import Task
from roboco.client.task_explanation import TaskExplanation, explanation_of
from roboco.client.task_result import TaskResult, result_of
from roboco.client.usage_report import UsageReport, usage_report
from roboco.domain.canonical_json import canonical_json
from roboco.domain.reading_form import DocumentForm, step_in_form
from roboco.domain.session.agent_session import AgentSessionDelta, AgentSessionRecord, SessionForm
from roboco.domain.session.session import Session, SessionDelta
from roboco.domain.status import TaskStatus
from roboco.errors import CorruptHistory, TransientError
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal, Scope
from roboco.gateway.problem import Problem
from roboco.gateway.rest.endpoints import Endpoints, RawJson, wait_until
from roboco.gateway.rest.models import HistoryPage, PendingReport, Verification
from roboco.gateway.rest.parameters import WaitSeconds

router = Endpoints("records", (404,))
MAX_HISTORY_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the steps of a page, unless its first step alone has more."""
FormParameter = Annotated[
    SessionForm,
    Query(description="The names and statuses of Roboco, or those of roboto.ai's sessions."),
]
Position = Annotated[int, Query(ge=0, le=10**9)]


async def _wait_at_rest(gateway: Gateway, caller: Principal, task_id: str, wait: float) -> None:
    """Wait until the task has ended or stays in a wait, at most this long. Cost: two reads in each interval.

    A read that fails counts as "not yet": the read after the wait reports a server that stays silent.
    """
    if not wait:
        return
    task = await gateway.task(caller, task_id)

    async def is_at_rest() -> bool:
        try:
            return await gateway.calls.reads.run(task.is_at_rest)
        except (Problem, TransientError):
            return False

    await wait_until(gateway, wait, is_at_rest)


@router.read("/tasks/{task_id}/history", HistoryPage, "Read the history")
def get_history(
    task: Task,
    start: Position = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    form: Annotated[DocumentForm | None, Query(description="The names of the document with this number.")] = None,
) -> RawJson:
    """Return committed steps from a position on, with their digests. `next` is the `start` of the next page.

    A page has at most `limit` steps and 4 MiB, and at least one step if there is one. With `form`, steps have the names
    and fields of one of the documents on Roboco's objects, without positions and digests.
    """
    # The steps are those that are stored, each on a separate line, so that a client can verify their digests.
    lines, size, following = list[bytes](), 0, "null"
    before = next(task.steps(start - 1), None) if form == "003" and start else None
    for step in task.steps(start):
        line = (step.line() if form is None else canonical_json(step_in_form(step, form, before))).encode()
        before = step
        size += len(line)
        if lines and (len(lines) == limit or size > MAX_HISTORY_BYTES):
            following = str(step.seq)
            break
        lines.append(line)
    return RawJson(b'{"steps":[\n%s\n],"next":%s}' % (b",\n".join(lines), following.encode()))


@router.read(
    "/tasks/{task_id}/session", Session | AgentSessionRecord, "Read the task as a conversation", line="histories"
)
def get_session(task: Task, form: FormParameter = "roboco") -> object:
    """Return a message for each step, and one for a running turn. Its `continuation_token` is for `delta`.

    The messages have at most 4 MiB, but at least one is returned. If `more` is true, `delta` has further ones.
    """
    return task.session(form=form, max_bytes=MAX_HISTORY_BYTES)


@router.read("/tasks/{task_id}/delta", SessionDelta | AgentSessionDelta, "Read changes of a conversation")
def get_delta(
    task: Task,
    token: Annotated[str, Query(max_length=200, description="The continuation_token of a session or delta.")] = "",
    form: FormParameter = "roboco",
) -> object:
    """Return the changes since a token; without a token, all of the conversation.

    If `rewind_to` is set, first drop the messages from that index on. Then put `messages_by_idx` in their places.
    A delta has at most 4 MiB, but at least one message. If `more` is true, the next delta has further changes.
    """
    return task.delta(token, form=form, max_bytes=MAX_HISTORY_BYTES)


@router.read("/tasks/{task_id}/result", TaskResult, "Read the result", line="histories", before=_wait_at_rest)
def get_result(task: Task, wait: WaitSeconds = 0) -> TaskResult:
    """Return the status, the newest text, the usage, the goals and the files of a task.

    With `wait`, the request waits until the task has ended or waits. The text of a task with the status `running` is no
    answer yet. A task that waits counts as running from the moment at which it accepts a message, or another item that
    ends its wait.
    """
    summary = task.summary()
    if summary.status.waiting and not task.is_at_rest(summary):
        summary = summary.model_copy(update={"status": TaskStatus.RUNNING, "reason": ""})
    return result_of(summary, task.history())


@router.read("/tasks/{task_id}/why", TaskExplanation, "Explain who acted and why", line="histories")
def explain_task(
    task: Task, step: Annotated[str | None, Query(max_length=80, description="The position or id of a step.")] = None
) -> TaskExplanation:
    """Return the rule and the candidates of each step, and why the task ended or waits."""
    return explanation_of(task, step)


@router.read("/tasks/{task_id}/context", ContextReport, "Show the prompt of a turn", line="histories")
def get_context(
    task: Task,
    step: Annotated[int | None, Query(ge=0, le=10**9, description="The position of an agent's step.")] = None,
) -> ContextReport:
    """Return the steps that the prompt of a turn contained, those that it left out and why, and its tokens."""
    return task.context_report(step)


@router.read("/tasks/{task_id}/usage", UsageReport, "Show the usage", line="histories")
def get_usage(task: Task) -> UsageReport:
    """Return the steps, tokens, calls, seconds and cost of the task, of each agent and of each tool, and the limits."""
    return usage_report(task)


@router.read(
    "/tasks/{task_id}/pending",
    PendingReport,
    "Show what the task waits for",
    Scope.READ,
    Scope.APPROVE,
    Scope.CONTROL,
)
def get_pending(task: Task) -> dict[str, Any]:
    """Return the calls that wait for a person or a client, and whether the task is paused at a limit."""
    actions = task.pending_actions()
    return {
        "task_id": task.task_id,
        "unapproved": actions.unapproved(),
        "changes": actions.changes(),
        "unanswered": actions.unanswered(),
        "unknown": actions.unknown(),
        "sub_tasks": actions.sub_tasks(),
        "at_limit": actions.at_limit(),
    }


@router.read("/tasks/{task_id}/verify", Verification, "Verify the history")
def verify_task(task: Task) -> dict[str, Any]:
    """Compare each step with its digest and with the step before it. Cost: the whole history is read."""
    try:
        return {"intact": True, "steps": task.verify(), "unfinished_line": False}
    except CorruptHistory as error:
        return {"intact": False, "code": error.code, "message": str(error)}

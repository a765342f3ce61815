"""following: read the stream of a task until the answer to a message of a chat is whole."""

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing

from roboco.client.task import Task
from roboco.domain.history.step import USER
from roboco.domain.stream.merged import Cursor
from roboco.errors import TransientError
from roboco.gateway.answers.answer_stream import AnswerPart, AnswerStream, SubTaskCall
from roboco.gateway.answers.ids import ITEM_PREFIX
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai.segment import begins_response
from roboco.gateway.openai.task_now import read_state
from roboco.gateway.problem import Problem

_log = logging.getLogger(__name__)


async def answer_parts(
    gateway: Gateway, task: Task, answer: AnswerStream, cursor: str | None, goes_on: bool = False
) -> AsyncGenerator[AnswerPart, None]:
    """Yield the parts of one answer; if it `goes_on`, those of all answers until the task waits or ends.

    The stream of a task does not say that a sub-task needs an approval. So each gap of the stream is a time to read
    that, and an answer ends with the parts that ask for it.
    """
    async with aclosing(task.astream_with_gaps(cursor)) as items:
        async for item in items:
            if item is not None:
                parts = answer.feed(item)
            elif answer.delegates:
                parts = answer.ask(await asked_in_sub_tasks(gateway, task, answer.head.task_id))
            else:
                continue
            for part in parts:
                yield part
            while answer.settled is not None:
                if not goes_on or answer.asked or await gateway.calls.streams.run(_rests_at, task, answer.steps):
                    return
                for part in answer.next_answer():
                    yield part


async def asked_in_sub_tasks(gateway: Gateway, task: Task, shown: str) -> list[SubTaskCall]:
    """Do the same as `unapproved_in_sub_tasks`, in a thread. While a server does not answer, nothing is asked."""
    try:
        return await gateway.calls.streams.run(unapproved_in_sub_tasks, task, shown)
    except (Problem, TransientError) as error:  # the stream goes on, and the next gap repeats it
        _log.info("the sub-tasks of task %s cannot be read: %s", task.task_id, error)
        return []


def unapproved_in_sub_tasks(task: Task, shown: str) -> list[SubTaskCall]:
    """Return the calls of the task's open sub-tasks, at any depth, that need an approval.

    `shown` is the id of the task as its caller names it. Cost: a read of Redis for the task and for each open sub-task,
    at most 50; if one asks, four times that, and reads of the newest steps of those that ask.
    """
    pending = task.pending_actions()
    if not (sub_tasks := pending.sub_tasks()):
        return []
    unapproved, origins, tenant = pending.unapproved(), pending.origins(), task.task_id.removesuffix(shown)
    return [
        SubTaskCall(call, origins[call.id][1], sub_tasks[call.id].removeprefix(tenant))
        for call in unapproved
        if call.id in sub_tasks and call.id in origins
    ]


def _rests_at(task: Task, steps: int) -> bool:
    """Return True if the task waits or has ended after this number of steps."""
    cursor = task.resting_cursor()
    if cursor is not None:
        return Cursor.parse(cursor).steps <= steps
    summary = task.summary()
    return summary.status.ended and summary.steps <= steps


def begin_of_message(task: Task) -> int | None:
    """Return the position of the newest message of the user, or None if the task waits or has ended. It blocks."""
    state = read_state(task, None)
    if state.cursor is not None or state.summary.status.ended:
        return None
    begin, before = 0, None
    for step in task.steps():
        of_chat = str(step.metadata.get("item_id", "")).startswith(ITEM_PREFIX)
        if step.agent_name == USER and (before is None or of_chat or begins_response(step, before)):
            begin = step.seq
        before = step
    return begin

"""following: read the stream of a task until the answer to a message of a chat is whole."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from roboco.client.task import Task
from roboco.domain.history.step import USER
from roboco.domain.stream.merged import Cursor
from roboco.gateway.answers.answer_stream import AnswerPart, AnswerStream
from roboco.gateway.answers.ids import ITEM_PREFIX
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai.accepting import read_state
from roboco.gateway.openai.segment import begins_response


async def answer_parts(
    task: Task, answer: AnswerStream, cursor: str | None, resumes: Gateway | None = None
) -> AsyncGenerator[AnswerPart, None]:
    """Yield the parts of one answer; with `resumes`, those of all answers until the task waits or ends."""
    async with aclosing(task.astream(cursor)) as items:
        async for item in items:
            for part in answer.feed(item):
                yield part
            while answer.settled is not None:
                if resumes is None or await resumes.calls.streams.run(_rests_at, task, answer.steps):
                    return
                for part in answer.next_answer():
                    yield part


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

"""The sub-tasks of a task that a chat follows, while a server does not answer."""

import asyncio
from typing import Any
from unittest.mock import create_autospec

import pytest

from roboco.client.task import Task
from roboco.errors import TransientError
from roboco.gateway.answers.answer_stream import AnswerStream
from roboco.gateway.answers.following import asked_in_sub_tasks
from roboco.gateway.calls import Calls
from roboco.gateway.gateway import Gateway
from roboco.gateway.openai.response_object import ResponseHead
from roboco.gateway.openai.response_stream import ResponseStart
from roboco.gateway.problem import unavailable


@pytest.mark.parametrize("error", [TransientError("Redis does not answer"), unavailable("too many calls wait")])
def test_a_read_that_fails_ends_no_answer(error: Exception) -> None:
    gateway: Any = create_autospec(Gateway, instance=True)
    gateway.calls = Calls(1.0)
    task: Any = create_autospec(Task, instance=True, task_id="t")
    task.pending_actions.side_effect = error
    try:
        asked = asyncio.run(asked_in_sub_tasks(gateway, task, "t"))
    finally:
        gateway.calls.close()
    answer = AnswerStream(ResponseHead("t", "team"), ResponseStart(0))
    assert list(answer.ask(asked)) == []
    assert answer.settled is None

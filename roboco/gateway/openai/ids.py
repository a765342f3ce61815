"""ids: the ids of OpenAI's objects, which derive from a task and a position in it. Nothing is stored for them.

resp_TASK_7        the response to the step at position 7: its message, or the results of its calls
conv_TASK          the conversation: the task
chatcmpl-TASK_7    a chat completion
msg_STEP_1.TASK    the text of a step: a client that refers to it need not name the task
fc_HASH.TASK       the item of a call of a client's function
tc_HASH.TASK       such a call: a client that sends its result need not name the task
mcpr_tc_HASH.TASK  a request for an approval; TASK may be a sub-task
"""

import re
from dataclasses import dataclass
from typing import Final

from roboco.domain.history.step import TaskStep
from roboco.domain.ids import is_task_id, tenant_of
from roboco.gateway.principal import Principal
from roboco.gateway.problem import Problem, not_found

_RESPONSE: Final = re.compile(r"resp_(.{1,200})_([0-9]{1,9})")
_CONVERSATION: Final = "conv_"
_APPROVAL: Final = "mcpr_"


@dataclass(frozen=True)
class ResponseId:
    """A response: the part of a task from the step at `position` until the task waits or ends."""

    task_id: str
    """The id of the task, as its caller names it."""
    position: int

    def __str__(self) -> str:
        return f"resp_{self.task_id}_{self.position}"

    @classmethod
    def parse(cls, text: str) -> "ResponseId":
        """Return the response of an id. Raise Problem `not_found` if the text is no such id."""
        match = _RESPONSE.fullmatch(text)
        if match is None or not is_task_id(match[1]):
            raise unknown_response(text)
        return cls(match[1], int(match[2]))


def unknown_response(text: str) -> Problem:
    """Return the Problem of a response that does not exist."""
    return not_found(f"no response {text[:200]!r}", "use the id of a response that POST /responses has returned")


def conversation_id(task_id: str) -> str:
    """Return the conversation of a task."""
    return f"{_CONVERSATION}{task_id}"


def task_of_conversation(text: str) -> str:
    """Return the task of a conversation. Raise Problem `not_found` if the text is no id of one."""
    task_id = text.removeprefix(_CONVERSATION)
    if not is_task_id(task_id):
        raise unknown_conversation(text)
    return task_id


def unknown_conversation(text: str) -> Problem:
    """Return the Problem of a conversation that does not exist."""
    return not_found(f"no conversation {text[:200]!r}", "POST /conversations returns a new one")


def shown_task_id(caller: Principal, task_id: str) -> str:
    """Return the id of a task as its caller names it: without the tenant, if that is the caller's own."""
    return task_id if caller.tenant is None else task_id.removeprefix(f"{tenant_of(task_id)}:")


def shown_call_id(call_id: str, task_id: str) -> str:
    """Return the id of a call for a client."""
    return f"{call_id}.{task_id}"


def approval_request_id(call_id: str, task_id: str) -> str:
    """Return the id of the request to approve a call."""
    return f"{_APPROVAL}{call_id}.{task_id}"


def split_call_id(text: str) -> tuple[str, str]:
    """Return the call and the task of a call's or approval's id; the task is "" if the id names none."""
    call_id, _, task_id = text.removeprefix(_APPROVAL).partition(".")
    return call_id, task_id if is_task_id(task_id) else ""


def message_item_id(task_id: str, step_id: str, attempt: int, void_before: int = 0) -> str:
    """Return the id of an output message. `void_before` are the void messages of the same step and attempt."""
    suffix = f"_{void_before}" if void_before else ""
    return f"msg_{step_id.removeprefix('step_')}_{attempt}{suffix}.{task_id}"


def call_item_id(task_id: str, call_id: str) -> str:
    """Return the id of the item of a call of a client's function."""
    return f"fc_{call_id.removeprefix('tc_')}.{task_id}"


def is_item_of(item_id: str, step: TaskStep, task_id: str) -> bool:
    """Return True if the item is the text of the step, or one of its calls."""
    text = item_id.startswith(f"msg_{step.step_id.removeprefix('step_')}_")
    return text or any(item_id == call_item_id(task_id, call.id) for call in step.calls)

"""ids: the ids of chats and messages, which lead to tasks and positions. Nothing is stored for them.

ai_HASH, ai_HASH_2   the tasks of a chat: the first one, and a branch for each answer that was asked for again
msg_TASK_7           the assistant's message that answers the step at position 7
ai-HASH              the inbox item of a message of the chat
"""

import re
from typing import Final

from roboco.domain.canonical_json import canonical_json, sha256
from roboco.domain.ids import is_task_id
from roboco.gateway.openai.ids import ResponseId

ITEM_PREFIX: Final = "ai-"
_MESSAGE: Final = re.compile(r"msg_(.{1,200})_([0-9]{1,9})")


def first_task_id(tenant: str | None, team: str, chat: str) -> str:
    """Return the id of the first task of a chat, without the tenant's prefix. Chats of different teams differ."""
    return f"ai_{sha256(canonical_json([tenant, team, chat]))[:32]}"


def task_id_of_branch(first: str, number: int) -> str:
    """Return the id of a task of a chat, by its number from 1."""
    return first if number == 1 else f"{first}_{number}"


def message_id(response_id: str) -> str:
    """Return the id of the message that a response is."""
    return f"msg_{response_id.removeprefix('resp_')}"


def response_of(message: str) -> ResponseId | None:
    """Return the response that a message is, or None if its id is not one of this gateway."""
    match = _MESSAGE.fullmatch(message)
    return ResponseId(match[1], int(match[2])) if match is not None and is_task_id(match[1]) else None

"""The changes of a session for a client that appends: it never drops what it has.

    token: position in the session, characters given of the running turn, and their checksum
      ─► SessionPoll ─► messages by index ─► the client extends the content of each, and sets its status

Roboco's own delta gives the running turn as a whole each time. This one gives the rest of its text. When the step is
committed, its text goes on where the given characters end, if the checksum shows that it begins with them. If not, the
given text is void, since the turn was restarted: an error says so in the same message, and the whole text follows.

A turn without text is left out: it may become another agent's or the user's message. The indices are the positions of
the steps; so they are contiguous, and each of the client's lists has the message that the history has there.

A message that this caller has sent is in the client's list already. It gets its status, and no content. But a client
whose token is that of the beginning has an empty list: it gets the content of each message.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from zlib import crc32

from roboco.client.session import SessionPoll
from roboco.domain.session.agent_session import (
    AgentContent,
    AgentMessage,
    AgentRole,
    AgentSessionStatus,
    agent_message,
    agent_status,
)
from roboco.domain.session.session import (
    ContinuationToken,
    MessageStatus,
    SessionDelta,
    SessionError,
    SessionMessage,
    SessionRole,
    SessionText,
)
from roboco.domain.status import TaskStatus
from roboco.errors import UsageError
from roboco.gateway.roboto.goals import goal_records

DROPS_SINCE: Final = (0, 62)
"""The first version of the client that is known to drop void text."""
RESTARTED: Final = "turn_restart"
"""The code of the error that makes the text before it in its message void."""
_VOID = SessionError(error_message="The text above is void: the turn was restarted.", error_code=RESTARTED)
_ABANDONED = AgentMessage(
    role=AgentRole.ASSISTANT, status=MessageStatus.GENERATING, content=[_VOID], created=datetime.fromtimestamp(0, UTC)
)
"""The change of a message whose turn is void, while no other one replaces it. The client keeps its time of creation."""
_TOKEN = re.compile(r"(.*)\.([0-9]{1,12})\.([0-9a-f]{1,8})", re.DOTALL)


@dataclass(frozen=True)
class GivenToken:
    """The state of a client that appends."""

    at: ContinuationToken = field(default_factory=ContinuationToken)
    """The position in the session."""
    given: int = 0
    """The characters that the client has of the turn at position `at.steps`."""
    checksum: int = 0
    """The CRC-32 of these characters."""

    def __str__(self) -> str:
        return f"{self.at}.{self.given}.{self.checksum:x}"

    @classmethod
    def parse(cls, text: str) -> "GivenToken":
        """Return the token of its text. Raise UsageError if the text is not a token."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            raise UsageError(f"next_token {text[:80]!r} is not one of a session or a delta")
        return cls(ContinuationToken.parse(match[1]), int(match[2]), int(match[3], 16))

    @classmethod
    def after(cls, at: ContinuationToken, text: str) -> "GivenToken":
        """Return the token of a client that has this text of the running turn."""
        return cls(at, len(text), _checksum(text))

    def precedes(self, text: str) -> bool:
        """Return True if the text begins with the given characters."""
        return len(text) >= self.given and _checksum(text[: self.given]) == self.checksum


@dataclass(frozen=True)
class Reader:
    """A client that polls."""

    sender: str
    """The prefix of the item ids of the messages that it has in its own list."""
    drops_void_text: bool = False
    """True if it drops messages from `reset_from_message_sequence_num` on: no error has to say that a text is void."""


@dataclass(frozen=True)
class Changes:
    """The changes since a token."""

    token: GivenToken
    status: AgentSessionStatus
    messages: dict[int, AgentMessage] = field(default_factory=dict)
    title: str | None = None
    goals: list[dict[str, Any]] | None = None
    reset_from: int | None = None
    """The index of a message whose text is void, or None."""

    @property
    def are_news(self) -> bool:
        """True if the client learns anything, or has to act."""
        waits = self.status is not AgentSessionStatus.ROBOTO_TURN
        return waits or bool(self.messages) or self.goals is not None or self.reset_from is not None

    def data(self) -> dict[str, Any]:
        """Return the delta on the wire. Its status is always set."""
        return {
            "messages_by_idx": {
                str(index): message.model_dump(mode="json") for index, message in self.messages.items()
            },
            "continuation_token": str(self.token),
            "status": self.status,
            "title": self.title,
            "goals": self.goals,
            "reset_from_message_sequence_num": self.reset_from,
        }


def session_status(status: TaskStatus, continues: bool) -> AgentSessionStatus:
    """Return the party that acts next. A task that has accepted a message is not its user's turn any more."""
    return AgentSessionStatus.ROBOTO_TURN if continues else agent_status(status)


def drops_void_text(requester: str) -> bool:
    """Return True if the client of this X-Roboto-Requester drops the messages that a delta voids."""
    try:
        sent = json.loads(requester)
        version = sent.get("roboto_tool_version") if isinstance(sent, dict) else None
        first, second = str(version).split(".")[:2]
        return (int(first), int(second)) >= DROPS_SINCE
    except (ValueError, RecursionError):
        return False


def changes_since(token: GivenToken, poll: SessionPoll, reader: Reader) -> Changes:
    """Return the changes since the token for this reader."""
    now = ContinuationToken.parse(poll.changes.continuation_token)
    first = token.at.steps
    void = token.given > 0 and _is_void(token, poll.changes)
    marks_void = void and not reader.drops_void_text
    messages: dict[int, AgentMessage] = {}
    for index, message in sorted(poll.changes.messages_by_idx.items()):
        shown = agent_message(message)
        if first and message.item_id is not None and message.item_id.startswith(reader.sender):
            shown = shown.model_copy(update={"content": []})
        if index == first and token.given > 0 and not void:
            messages[index] = _rest(shown, token.given)
        elif index == first and marks_void:
            messages[index] = shown.model_copy(update={"content": [_VOID, *shown.content]})
        elif not _is_blank_turn(message):
            messages[index] = shown
    if marks_void and first not in messages:
        messages[first] = _ABANDONED
    return Changes(
        token=_next_token(token, now, poll.changes, void),
        status=session_status(poll.status, poll.continues or poll.changes.more),
        messages=messages,
        title=poll.changes.title,
        goals=None if poll.changes.goals is None else goal_records(poll.changes.goals),
        reset_from=first if void else None,
    )


def running_text(messages: list[SessionMessage]) -> str:
    """Return the text of the running turn, which is the last message if there is one; else ""."""
    last = messages[-1] if messages else None
    return last.text if last is not None and last.status is MessageStatus.GENERATING else ""


def without_blank_turn(messages: list[SessionMessage]) -> list[SessionMessage]:
    """Return the messages without a turn that has no text yet."""
    return messages[:-1] if messages and _is_blank_turn(messages[-1]) else messages


def _is_void(token: GivenToken, changes: SessionDelta) -> bool:
    """Return True if the given text of the turn is not the beginning of its text any more."""
    if changes.rewind_to is not None:
        return True
    message = changes.messages_by_idx.get(token.at.steps)
    return message is not None and (message.role is not SessionRole.ASSISTANT or not token.precedes(message.text))


def _next_token(token: GivenToken, now: ContinuationToken, changes: SessionDelta, void: bool) -> GivenToken:
    turn = changes.messages_by_idx.get(now.steps)
    if turn is not None:
        return GivenToken.after(now, turn.text)
    if now.steps == token.at.steps and not void:
        return GivenToken(now, token.given, token.checksum)
    return GivenToken(now)


def _rest(message: AgentMessage, given: int) -> AgentMessage:
    """Return the message without the first characters of its text."""
    content: list[AgentContent] = []
    for part in message.content:
        if not isinstance(part, SessionText):
            content.append(part)
            continue
        if rest := part.text[given:]:
            content.append(part.model_copy(update={"text": rest}))
        given = max(0, given - len(part.text))
    return message.model_copy(update={"content": content})


def _is_blank_turn(message: SessionMessage) -> bool:
    return not message.content and not message.status.is_terminal()


def _checksum(text: str) -> int:
    return crc32(text.encode(errors="surrogatepass"))

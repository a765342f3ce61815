"""roboto.ai's own client in tests: its accumulated view, compared with the session that the server has."""

from collections.abc import Callable
from typing import Any, cast

from roboto.ai.agent_session import AgentSession, AgentSessionRecord
from roboto.http import RobotoClient

from roboco.domain.session.agent_session import agent_message
from roboco.domain.session.session import Session
from roboco.gateway.roboto.changes import RESTARTED, without_blank_turn

Block = dict[str, Any]


class _Answer:
    """An answer, of which the client reads the data as a record."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data

    def to_record(self, kind: Any) -> Any:
        return kind.model_validate(self._data)


class _Polling:
    """The one operation of roboto.ai's HTTP client that a session needs to refresh itself."""

    def __init__(self, delta: Callable[[str], dict[str, Any]]) -> None:
        self._delta = delta

    def get(self, path: str, query: dict[str, str]) -> _Answer:
        assert path.endswith("/delta")
        return _Answer(self._delta(query["next_token"]))


def polling_session(record: dict[str, Any], delta: Callable[[str], dict[str, Any]]) -> AgentSession:
    """Return a session of roboto.ai's package with this record, whose deltas come from a function of the token."""
    return AgentSession(AgentSessionRecord.model_validate(record), cast(RobotoClient, _Polling(delta)))


def record_of(session: AgentSession) -> AgentSessionRecord:
    """Return the record that the session holds, some fields of which the package does not show."""
    record = getattr(session, "_AgentSession__record")  # noqa: B009 - a name that the package mangles
    assert isinstance(record, AgentSessionRecord)
    return record


def client_view(session: AgentSession) -> list[tuple[str, str, list[Block]]]:
    """Return role, status and valid content of each message that the client has accumulated.

    A last message whose text is void, and that waits for another text, is left out.
    """
    shown = [
        (str(message.role), str(message.status), valid([block.model_dump(mode="json") for block in message.content]))
        for message in session.messages
    ]
    return shown[:-1] if shown and shown[-1][1:] in (("generating", []), ("not_started", [])) else shown


def server_view(session: Session) -> list[tuple[str, str, list[Block]]]:
    """Return the same of the messages of the server's session."""
    return [
        (str(shown.role), str(shown.status), valid([block.model_dump(mode="json") for block in shown.content]))
        for shown in map(agent_message, without_blank_turn(session.messages))
    ]


def valid(content: list[Block]) -> list[Block]:
    """Return the content after the last error that makes text void, with adjacent texts joined."""
    found: list[Block] = []
    for block in content:
        if block.get("error_code") == RESTARTED:
            found = []
        elif "text" in block and found and "text" in found[-1]:
            found[-1] = {"text": found[-1]["text"] + block["text"]}
        else:
            found.append({"text": block["text"]} if "text" in block else _known(block))
    return found


def _known(block: Block) -> Block:
    return {name: value for name, value in block.items() if value is not None}

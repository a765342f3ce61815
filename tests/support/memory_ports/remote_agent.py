"""A remote agent in memory, whose tasks run until a turn has read them to their end, or until they are cancelled.

It does not know messages by their ids: a message that is sent twice begins two tasks.
"""

from collections.abc import Iterator

from roboco.domain.team.model_profile import REMOTE_AGENT
from roboco.domain.usage import ModelUsage
from roboco.errors import ModelError, TransientError
from roboco.ports.model import CallProgress, Listener, Reply, Request
from roboco.ports.remote_task import RemoteTask
from tests.support.memory_ports.model import Script, ScriptedModel, ScriptedStream
from tests.support.memory_ports.watch import Watch, watch_port

WORDS = ("far", " away", " words")


class MemoryRemoteAgent:
    """The tasks of a remote agent: their states, and the ids of their messages, by their own ids."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.messages: dict[str, str] = {}

    def send(self, message_id: str) -> str:
        """Begin a task. Return its id."""
        task_id = f"remote-{len(self.states)}"
        self.states[task_id], self.messages[task_id] = "WORKING", message_id
        return task_id

    def read(self, task_id: str, place: int) -> str:
        """Return a word of the task, or "" once it has ended: the last word ends it."""
        if self.states[task_id] == "CANCELED":
            raise ModelError("remote_agent", "the remote agent's task is canceled", False)
        if place == len(WORDS):
            self.states[task_id] = "COMPLETED"
            return ""
        return WORDS[place]

    def cancel(self, task_id: str) -> str:
        """Cancel the task, unless it has ended. Return its state."""
        if self.states[task_id] == "WORKING":
            self.states[task_id] = "CANCELED"
        return self.states[task_id]


class ModelWithRemote(ScriptedModel):
    """A scripted model, and a remote agent, each call of which the watch makes."""

    def __init__(self, script: Script, watch: Watch) -> None:
        super().__init__(script)
        self.agent = MemoryRemoteAgent()
        self._watched = watch_port(self.agent, "remote", watch)

    def stream(self, request: Request, listener: Listener | None = None) -> ScriptedStream:
        """Start a call of the model, or of the remote agent."""
        if request.profile.provider != REMOTE_AGENT:
            return super().stream(request, listener)
        assert request.remote is not None
        return RemoteStream(self._watched, request.remote, listener)


class RemoteStream(ScriptedStream):
    """A call of the remote agent. Closing it ends no task."""

    def __init__(self, agent: MemoryRemoteAgent, remote: RemoteTask, listener: Listener | None) -> None:
        super().__init__(None, listener)  # type: ignore[arg-type]
        self.progress = CallProgress(1, 1, 0.0, 180.0, server="http://far/a2a")
        self._agent = agent
        self._remote = remote

    def __iter__(self) -> Iterator[str | Reply]:
        """Yield or publish the words, then the Reply."""
        try:
            yield from self._cancelled() if self._remote.cancels else self._answered()
        except ModelError:
            raise
        except TransientError as error:  # it may be in doubt whether the message was sent
            raise ModelError("connection", str(error), True) from error

    def _cancelled(self) -> Iterator[str | Reply]:
        yield self._agent.cancel(self._remote.begin() or "")
        yield Reply("far", "stop")

    def _answered(self) -> Iterator[str | Reply]:
        task_id = self._remote.begin()
        if task_id is None:
            if self.closed:
                self._remote.note_refused()
                return
            task_id = self._agent.send(self._remote.message_id)
            self._remote.note(task_id)
        place = 0
        while not self.closed:
            if not (word := self._agent.read(task_id, place)):
                self._remote.note_end("COMPLETED")
                yield Reply("far", "stop", usage=ModelUsage(10, 5))
                return
            place += 1
            if self._listener is None:
                yield word
            else:
                self._listener.on_text(word)

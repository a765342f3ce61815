"""a2a_wire: a turn of a remote agent, by the JSON-RPC binding of A2A 1.0.

    message ─► SendStreamingMessage ─► events ─► text of the reply ─► the task has ended, or asks: the reply is whole
                     │ cut, or begun by an earlier attempt                  ▲
                     └─► SubscribeToTask, GetTask ─► events ────────────────┘

The agent is hostile input: an event, a reply and its time have the limits of any model's, no redirection is followed,
and the address is the operator's alone: no card is read. A text that the agent replaces begins the turn again.
Closing a call ends no task: another request cancels it, once the caller knows that no worker continues the turn
(`remote_turn.py`). If a call is closed while its message is on its way, the answer is read until it names the task.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import aiohttp

from roboco.domain.canonical_json import canonical_json, well_formed
from roboco.errors import ModelError
from roboco.model.chat_wire import open_session, post
from roboco.model.errors import ServerFailure
from roboco.model.reply_assembly import MAX_NAME_CHARS, ReplyAssembly
from roboco.model.sse import iter_chunks
from roboco.model.wire import Output
from roboco.ports.model import Request
from roboco.ports.remote_task import RemoteTask

POLL_SECONDS: Final = (0.5, 1.0, 2.0, 5.0)
"""Seconds between two requests for a task whose stream has ended, the last one for all further ones."""
CANCEL_TIMEOUT: Final = 5.0
"""Seconds in which a task that is cancelled must end, for each attempt at that."""
NAME_TIMEOUT: Final = 3.0
"""Seconds for which the answer to a message is read after its call was closed."""
MAX_ARTIFACTS: Final = 10_000
MAX_TASK_ID_CHARS: Final = 1000
MAX_COMPARISONS: Final = 1000
"""The most times that the texts of a reply are compared, because events have replaced or repeated some."""
_STATE: Final = "TASK_STATE_"
_RESTS: Final = ("COMPLETED", "INPUT_REQUIRED", "AUTH_REQUIRED")
_FAILS: Final = ("FAILED", "CANCELED", "REJECTED")
_GONE: Final = "NOT_FOUND"
_NO_TEXT: Final = "(no text)"
"""The reply of an agent whose task has ended, or asks, without a text."""
_UNKNOWN_METHOD: Final = -32601
_CANNOT_STREAM: Final = (-32004, _UNKNOWN_METHOD)
_REFUSALS: Final = (-32700, -32600, -32602, *_CANNOT_STREAM, -32001, -32003, -32005, -32007, -32008, -32009)
"""Errors of JSON-RPC and A2A by which an agent refuses a message. After another one it may have acted."""
_NOT_FOUND: Final = -32001
_BUSY: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which a task that is known is read again later."""
_UNCERTAIN: Final = (408, 409, 425)
"""Statuses after which the agent may have accepted a message, as after those of a failed server."""


class A2aWire:
    """Sends messages to remote agents. Use it in one event loop."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._unnamed: set[asyncio.Task[None]] = set()
        """Calls that were closed before the agent has named the task."""

    async def close(self) -> None:
        """Close all connections, after the answers to messages that are on their way."""
        if self._unnamed:
            await asyncio.wait(self._unnamed, timeout=NAME_TIMEOUT)
        if self._session is not None:
            await self._session.close()

    async def exchange(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        """Send the message, or find the task that it has begun, and read the task to its end. Or cancel the task."""
        if (remote := request.remote) is None:
            raise ModelError("setting", "a remote agent answers turns alone: name another profile here", False)
        reading = _Reading(assembly, output)
        answer = self._cancel if remote.cancels else self._answer
        answering = asyncio.create_task(answer(request, remote, reading))
        try:
            await asyncio.shield(answering)
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error
        except asyncio.CancelledError:
            reading.close()
            answering.add_done_callback(self._forget)
            if reading.task_id or remote.cancels:
                answering.cancel()
                await asyncio.wait([answering])
            else:
                self._unnamed.add(answering)
                asyncio.get_running_loop().call_later(NAME_TIMEOUT, answering.cancel)
            raise

    def _forget(self, ended: asyncio.Task[None]) -> None:
        self._unnamed.discard(ended)
        if not ended.cancelled():
            ended.exception()  # its caller is gone

    async def _answer(self, request: Request, remote: RemoteTask, reading: "_Reading") -> None:
        known = await asyncio.to_thread(remote.begin)
        if reading.is_closed:  # before the message was sent
            if known is None:
                await asyncio.to_thread(remote.note_refused)
            return
        reading.task_id = known or ""
        if known is None:
            await self._send(request, remote, reading)
        await self._follow(request, reading)
        if reading.state:
            await asyncio.to_thread(remote.note_end, reading.state)
        reading.finish()

    async def _send(self, request: Request, remote: RemoteTask, reading: "_Reading") -> None:
        """Send the message, and read the events. Without a stream, the answer is the task."""
        params = {"message": _message(request, remote)}
        try:
            try:
                await self._read(request, "SendStreamingMessage", params, reading, remote)
            except _Refused as refused:
                if refused.code not in _CANNOT_STREAM or reading.has_begun:
                    raise
                at_once = {"configuration": {"returnImmediately": True}}  # only a task that is known can be cancelled
                await self._read(request, "SendMessage", params | at_once, reading, remote)
        except (ServerFailure, aiohttp.ClientConnectorError) as failure:
            if _is_certain(failure) and not reading.has_begun:
                await asyncio.to_thread(remote.note_refused)
            raise

    async def _follow(self, request: Request, reading: "_Reading") -> None:
        """Read the task until it has ended or asks. The time-out of silence bounds an agent that is too busy."""
        params, looks = {"id": reading.task_id}, 0
        while not (reading.is_over or reading.is_closed):
            if not reading.task_id:
                raise ServerFailure.within_stream("the remote agent has named no task")
            delay = POLL_SECONDS[min(looks, len(POLL_SECONDS) - 1)]
            looks += 1
            try:
                await self._read(request, "SubscribeToTask", params, reading)
                if not reading.is_over:
                    await self._read(request, "GetTask", params, reading)
            except ServerFailure as failure:
                if failure.status not in _BUSY:
                    raise
                delay = max(delay, failure.retry_after or 0.0)
            if not reading.is_over:
                await asyncio.sleep(delay)

    async def _read(
        self,
        request: Request,
        method: str,
        params: dict[str, Any],
        reading: "_Reading",
        remote: RemoteTask | None = None,
    ) -> None:
        """Send a request, and add its results. A cut or an error is none once the task is known: it is read again."""
        try:
            async with aclosing(self._events(request, method, params, reading)) as events:
                async for event in events:
                    known = reading.task_id
                    reading.add({"task": event} if method == "GetTask" else event)
                    if remote is not None and reading.task_id != known:
                        await asyncio.shield(asyncio.to_thread(remote.note, reading.task_id))
                    if reading.is_over or (reading.is_closed and reading.task_id):
                        return
        except (aiohttp.ClientError, _Refused):
            if not reading.task_id or method == "GetTask":
                raise

    async def _events(
        self, request: Request, method: str, params: dict[str, Any], reading: "_Reading"
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the results of a request. Raise _Refused for an error of JSON-RPC."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        if self._session is None:
            self._session = open_session()
        url = str(request.profile.base_url)
        response = await post(self._session, request, url, body, **{"A2A-Version": "1.0"})
        try:
            encoding = response.headers.get("Content-Encoding", "").strip().lower()
            async for event in iter_chunks(reading.heard(response.content.iter_any()), encoding):
                match event:
                    case {"error": dict(error)}:
                        raise _Refused(error)
                    case {"result": dict(result)}:
                        yield result
                    case _:
                        raise ServerFailure.within_stream(f"no answer of JSON-RPC: {str(event)[:200]}")
        finally:
            response.close()

    async def _cancel(self, request: Request, remote: RemoteTask, reading: "_Reading") -> None:
        """Cancel the task, and say in which state it has ended. Raise ServerFailure if the agent refuses that."""
        task_id = await asyncio.to_thread(remote.begin) or ""
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                state = await self._state_after_cancel(request, task_id)
        except TimeoutError:
            raise ConnectionError(f"the remote agent has not ended its task within {CANCEL_TIMEOUT:g} s") from None
        reading.add({"message": {"parts": [{"text": state}]}})
        reading.finish()

    async def _state_after_cancel(self, request: Request, task_id: str) -> str:
        task, method = _Reading(ReplyAssembly(""), None), "CancelTask"
        refused: _Refused | None = None
        while True:
            refused = await self._look(request, method, task_id, task) or refused
            if state := task.state:
                return state
            if method == "GetTask":
                if refused is not None:
                    raise refused
                await asyncio.sleep(POLL_SECONDS[0])
            method = "GetTask"

    async def _look(self, request: Request, method: str, task_id: str, task: "_Reading") -> "_Refused | None":
        """Send a request for a task, and note its state. Return the refusal of a task that exists."""
        try:
            async with aclosing(self._events(request, method, {"id": task_id}, task)) as events:
                async for event in events:
                    task.add({"task": event})
        except _Refused as refused:
            if refused.code != _NOT_FOUND:
                return refused
            task.add({"statusUpdate": {"status": {"state": _GONE}}})
        return None


class _Refused(ServerFailure):
    """The agent has refused a request by an error of JSON-RPC."""

    def __init__(self, error: dict[str, Any]) -> None:
        self.code = error.get("code")
        reason = "; this is the answer of an agent before A2A 1.0" if self.code == _UNKNOWN_METHOD else ""
        super().__init__(0, {"error": {"message": f"{str(error.get('message'))[:2000]}{reason}"}})


def _is_certain(failure: Exception) -> bool:
    """Return True if the agent has certainly not accepted the message."""
    match failure:
        case _Refused():
            return failure.code in _REFUSALS
        case ServerFailure():
            return failure.status == 503 or (400 <= failure.status < 500 and failure.status not in _UNCERTAIN)
        case _:
            return True  # no connection


class _Reading:
    """A task as it has been read so far. The reply is the text of its artifacts, in the order in which they began."""

    def __init__(self, assembly: ReplyAssembly, output: Output | None) -> None:
        self.task_id = ""
        self.is_closed = False
        self._assembly = assembly
        self._output = output
        self._texts: dict[str, list[str]] = {}
        self._length = 0
        self._said: list[str] = []
        self._said_length = 0
        self._comparisons = 0
        self._in_step = True
        """True if the texts are what was said; false while a task is read again from its begin."""
        self._state = ""
        self._status = ""
        """The text of the newest status."""
        self._context = ""

    def close(self) -> None:
        """Say nothing any more: the call was closed."""
        self._output, self.is_closed = None, True

    async def heard(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the pieces. Each is a sign of life, also one without an event."""
        async for piece in pieces:
            if self._output is not None:
                self._output.heard()
            yield piece

    @property
    def has_begun(self) -> bool:
        """True if the agent has sent an event: it has accepted the message."""
        return self._assembly.has_chunks

    @property
    def state(self) -> str:
        """The state in which the task has ended or asks, or ""."""
        return self._state if self._state in (*_RESTS, *_FAILS, _GONE) else ""

    @property
    def is_over(self) -> bool:
        """True if the task has ended or asks, or the reply has reached a limit."""
        return bool(self.state or self._assembly.exceeded_limit)

    def add(self, event: dict[str, Any]) -> None:
        """Add an event, or a whole task. Raise ModelError if the agent has replaced what was said."""
        self._assembly.count_chunk()
        match event:
            case {"task": {"id": str(task_id), **task}}:
                self.task_id, self._context = _bounded_id(task_id), str(task.get("contextId") or "")
                self._texts, self._length = {}, 0  # it has all that there is
                for artifact in _objects(task.get("artifacts")):
                    self._clear(name := str(artifact.get("artifactId"))[:MAX_NAME_CHARS])
                    self._keep(name, _text(artifact.get("parts")))
                self._compare()
                self._set_status(task.get("status"))
            case {"message": {"parts": parts, **message}}:
                self._append("message", _text(parts))
                self._context = str(message.get("contextId") or "")
                self._state = "COMPLETED"
            case {"artifactUpdate": {"artifact": {"artifactId": str(given), "parts": parts}, **update}}:
                name = given[:MAX_NAME_CHARS]
                appends = update.get("append") is True
                if self._in_step and (name not in self._texts or (appends and self._is_last(name))):
                    self._append(name, _text(parts))
                else:
                    if not appends:
                        self._clear(name)
                    self._keep(name, _text(parts))
                    self._compare()
            case {"statusUpdate": {"status": status}}:
                self._set_status(status)
            case _:
                pass

    def finish(self) -> None:
        """End the reply, or raise ModelError if the task has failed."""
        if self._state in _FAILS:
            why = self._status[:400] or "it names no reason"
            raise ModelError("remote_agent", f"the remote agent's task is {self._state.lower()}: {why}", False)
        if self._state not in _RESTS:
            return  # at a limit
        if not self._in_step:
            raise self._replaced()
        asks = self._state != "COMPLETED"
        if asks or not self._said:  # an agent may answer in its last status alone
            self._append("status", self._status or ("" if self._said else _NO_TEXT))
        self._assembly.keep(self._assembly.provider, "context", well_formed(self._context))
        self._assembly.keep(self._assembly.provider, "task", self.task_id if asks else None)
        self._assembly.finish("stop")
        self._assembly.ended = True

    def _set_status(self, status: Any) -> None:
        if isinstance(status, dict):
            self._state = str(status.get("state")).removeprefix(_STATE)
            message = status.get("message")
            self._status = _text(message.get("parts")) if isinstance(message, dict) else ""

    def _is_last(self, name: str) -> bool:
        return next(reversed(self._texts)) == name

    def _append(self, name: str, text: str) -> None:
        """Add text at the end. Cost: its length."""
        begins = not self._texts.get(name)
        self._keep(name, text)
        self._say(f"\n\n{text}" if begins and text and self._said else text)

    def _keep(self, name: str, text: str) -> None:
        pieces = self._texts.setdefault(name, [])
        if len(self._texts) > MAX_ARTIFACTS:
            raise ModelError("too_long", f"the remote agent has sent more than {MAX_ARTIFACTS} artifacts", False)
        if text:
            pieces.append(text)
            self._length += len(text)

    def _clear(self, name: str) -> None:
        self._length -= sum(map(len, self._texts.get(name, ())))
        self._texts[name] = []

    def _compare(self) -> None:
        """Say what the texts have more than what was said, once they are as long. Cost: their length."""
        self._in_step = False
        if self._length + 2 * len(self._texts) < self._said_length:
            return
        self._comparisons += 1
        whole = "\n\n".join(text for pieces in self._texts.values() if (text := "".join(pieces)))
        said = "".join(self._said)
        self._in_step = whole.startswith(said)
        if self._in_step:
            self._say(whole[len(said) :])
        if self._comparisons > MAX_COMPARISONS or not (self._in_step or said.startswith(whole)):
            raise self._replaced()

    def _say(self, text: str) -> None:
        if text:
            self._said.append(text)
            self._said_length += len(text)
        if self._output is not None and (new := self._assembly.add_text(text)):
            self._output.say(new)

    @staticmethod
    def _replaced() -> ModelError:
        return ModelError("replaced", "the remote agent has replaced its text", True)


def _message(request: Request, remote: RemoteTask) -> dict[str, Any]:
    """Return the messages after the agent's last answer as one, in its context."""
    texts, state = list[str](), dict[str, Any]()
    for message in reversed(request.messages):
        provider = message.get("provider")
        if message["role"] == "assistant" and isinstance(provider, dict) and provider.get("context"):
            state = provider
            break
        if message["role"] != "system":
            texts.insert(0, _content(message.get("content")))
    ids = {name: state[key] for key, name in (("context", "contextId"), ("task", "taskId")) if state.get(key)}
    parts = [{"text": text} for text in texts if text] or [{"text": "(nothing)"}]
    return {"messageId": remote.message_id, "role": "ROLE_USER", "parts": parts, **ids}


def _content(content: Any) -> str:
    if isinstance(content, list):
        return "\n\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return str(content or "")


def _bounded_id(task_id: str) -> str:
    if len(task_id) > MAX_TASK_ID_CHARS:
        raise ModelError("remote_agent", f"its task's id has more than {MAX_TASK_ID_CHARS} characters", False)
    if task_id != well_formed(task_id):
        raise ModelError("remote_agent", "its task's id is no text", False)
    return task_id


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _json(data: Any) -> str:
    try:
        return canonical_json(data)
    except ValueError as error:
        raise ModelError("remote_agent", f"its data are no JSON: {error}", False) from None


def _text(parts: Any) -> str:
    """Return the text of parts. Data are JSON, and files their addresses or names."""
    return "".join(
        part["text"]
        if isinstance(part.get("text"), str)
        else _json(part["data"])
        if "data" in part
        else str(part.get("url") or part.get("filename") or "")
        for part in _objects(parts)
    )

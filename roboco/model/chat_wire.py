"""chat_wire: chat completions over HTTP, as hundreds of servers speak them.

    profile, messages, tools ─► body ─► lessons of the server ─► POST, streamed ─► chunks ─► assembly
                                          ▲                        │ 400 that names what is wrong
                                          └── learned, once ◄──────┘

Own code in place of a provider's package: reading a token takes 13 µs of processor time, a tenth of what the packages
take, and hundreds of streams share one thread. No reply is decompressed without a bound, and no error is read whole.
"""

import asyncio
import json
import os
from contextlib import suppress
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from roboco.domain.url import without_query
from roboco.errors import ModelError
from roboco.http.retry_after import parse_retry_after, parse_seconds
from roboco.model.allowlist import DEFAULT_BASE_URL, account_headers, base_url_of, model_key
from roboco.model.chat_reader import ChatReader
from roboco.model.errors import ServerFailure
from roboco.model.learned import Learner, Lessons
from roboco.model.provider_state import chat_messages
from roboco.model.reply_assembly import ReplyAssembly
from roboco.model.sse import iter_chunks, parse_json, unpacked
from roboco.model.strict_schema import plain_schema
from roboco.model.wire import Output
from roboco.ports.model import Request

MAX_ERROR_BYTES = 64 * 1024
"""Maximum number of bytes that are read of the body of an error."""
SMALL_MAX_TOKENS = 4096
"""Output tokens that every current model can be asked for. What the limits leave is sent only if it is less."""
ERROR_TIMEOUT = 5.0
"""Seconds to wait for the rest of an error."""
CONNECT_TIMEOUT = 10.0
DRAIN_TIMEOUT = 0.1
"""Seconds to wait for the end after the last event: only a connection that was read to its end is reused."""


class ChatWire:
    """Sends chat completions. Use it in one event loop."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def exchange(self, request: Request, assembly: ReplyAssembly, output: Output) -> None:
        """Send the request and read its reply. Learn from a refusal that names a parameter, and repeat the request."""
        try:
            response = await self._learner.accepted(request, lambda lessons: self._post(request, lessons, assembly))
            try:
                await _read_reply(response, request, assembly, output)
            finally:
                response.close() if not response.content.at_eof() else response.release()
        except aiohttp.InvalidURL as error:
            raise ModelError("setting", f"model {request.profile.model!r} has no valid address", False) from error
        except aiohttp.ClientError as error:
            raise ConnectionError(str(error) or type(error).__name__) from error

    async def _post(self, request: Request, lessons: Lessons, assembly: ReplyAssembly) -> aiohttp.ClientResponse:
        body = request_body(request, lessons)
        assembly.max_tokens = _stream_limit(request, body)
        if self._session is None:
            self._session = open_session()
        return await post(self._session, request, chat_url(base_url_of(request.profile)), body)


def open_session() -> aiohttp.ClientSession:
    """Return the connections to servers, without cookies and without a limit of their number."""
    return aiohttp.ClientSession(
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT),
        max_line_size=32_768,
        max_field_size=32_768,
    )


async def post(
    session: aiohttp.ClientSession, request: Request, url: str, body: dict[str, Any], **headers: str
) -> aiohttp.ClientResponse:
    """Send a body with the key of the request's profile, and return the response. Raise ServerFailure for a refusal."""
    response = await session.post(
        URL(url, encoded=True),
        data=json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode(errors="replace"),
        headers=_headers(request, url) | headers,
        proxy=_proxy_of(url),
        allow_redirects=False,
    )
    if response.status >= 300:
        raise await _failure_of(response, body)
    return response


def request_body(request: Request, lessons: Lessons) -> dict[str, Any]:
    """Return the body of the request, without what the profile omits and what the server is known to refuse."""
    profile = request.profile
    parameters: dict[str, Any] = {
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": profile.temperature,
        "top_p": profile.top_p,
        "max_tokens": sent_max_tokens(request, lessons.max_output),
        "response_format": request.response_format,
        **profile.parameters,
        **lessons.values,
    }
    loose = "strict" in lessons.omitted.union(profile.omit)
    if loose and request.response_format:
        parameters["response_format"] = _without_strict(request.response_format, "json_schema")
    if request.tools:
        tools = [_with_plain_schema(tool) for tool in request.tools] if lessons.plain_tools else request.tools
        parameters["tools"] = [_without_strict(tool, "function") if loose else tool for tool in tools]
        parameters["tool_choice"] = "required" if request.tool_choice == "required" else None
    else:
        parameters.pop("parallel_tool_calls", None)  # refused without tools
    body: dict[str, Any] = {"model": profile.model}
    for name, value in parameters.items():
        sent_name = lessons.sent_name(name)
        if value is not None and name not in profile.omit and sent_name:
            body[sent_name] = value
    return body | {"messages": _messages(request, lessons)}


def _messages(request: Request, lessons: Lessons) -> list[dict[str, Any]]:
    """Return the messages in the form that the server accepts."""
    profile, forms = request.profile, lessons.forms
    left_out = frozenset(lessons.message_fields).union(profile.omit)
    messages = chat_messages(request.messages, left_out, "short_call_ids" in forms, "all_reasoning" in forms)
    if "answers_tools" in forms or "alternates" in forms:
        messages = [one for pair in zip([{}, *messages], messages, strict=False) for one in _answered(*pair)]
    if lessons.system_as_user:
        messages = [message | {"role": "user"} if message["role"] == "system" else message for message in messages]
    if "alternates" in forms:
        messages = _alternating(messages)
    if "fills_messages" in forms:
        messages = [_filled(message) for message in messages]
    if profile.provider == "mistral":
        messages = [_with_document_urls(message) for message in messages]
    return messages


def _with_document_urls(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with PDFs in the form of Mistral."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    files = [part.get("file") for part in content]
    changed = [
        {"type": "document_url", "document_url": file["file_data"], "document_name": file["filename"]} if file else part
        for part, file in zip(content, files, strict=True)
    ]
    return message | {"content": changed}


def _answered(before: dict[str, Any], message: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """Return the message, after one of the model if it is the user's and follows the results of tools."""
    if (before.get("role"), message["role"]) == ("tool", "user"):
        return {"role": "assistant", "content": "I have the results."}, message
    return (message,)


def _alternating(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with those of one role joined, beginning with the user's after that of the system."""
    joined: list[dict[str, Any]] = []
    for message in messages:
        last, role = joined[-1] if joined else {"role": "system"}, message["role"]
        if joined and role == last["role"] != "tool" and not last.get("tool_calls"):
            joined[-1] = last | message | {"content": _joined(last.get("content"), message.get("content"))}
            continue
        if role == "assistant" and last["role"] == "system":
            joined.append({"role": "user", "content": "Go on."})
        joined.append(message)
    return joined


def _joined(first: Any, second: Any) -> Any:
    """Return two contents as one: a text, or a list of parts if one of them is a list."""
    contents = [content for content in (first, second) if content]
    if not any(isinstance(content, list) for content in contents):
        return "\n\n".join(contents)
    parts = [[{"type": "text", "text": one}] if isinstance(one, str) else one for one in contents]
    return [part for some in parts for part in some]


def _filled(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message with words in place of an empty text, or with null beside calls."""
    content = message.get("content")
    if content is not None and not (isinstance(content, str) and not content.strip()):
        return message
    return message | {"content": None if message.get("tool_calls") else "(empty)"}


def sent_max_tokens(request: Request, learned: int | None) -> int | None:
    """Return the largest number of output tokens to ask for, or None.

    The profile's own maximum is always sent. What the limits leave is sent only if no current model refuses it.
    """
    own, left = request.profile.max_tokens, request.max_tokens
    if own is not None and learned is not None:
        own = min(own, learned)
    if left is not None and left < (own or learned or SMALL_MAX_TOKENS):
        return left
    return own


def _stream_limit(request: Request, body: dict[str, Any]) -> int | None:
    """Return the tokens at which this process ends the stream. A server that was given a maximum counts them better."""
    sent = body.get("max_tokens") or body.get("max_completion_tokens")
    limits = filter(None, (request.max_tokens, request.profile.max_tokens))
    return 2 * sent if isinstance(sent, int) else min(limits, default=None)


def _without_strict(value: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the value without `strict` in the object of this name."""
    return value | {name: {key: one for key, one in value[name].items() if key != "strict"}}


def _with_plain_schema(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    return tool | {"function": function | {"parameters": plain_schema(function.get("parameters") or {})}}


def chat_url(base_url: str | None) -> str:
    """Return the address of chat completions below this base. A query, such as Azure's `api-version`, is kept."""
    parts = urlsplit(base_url or DEFAULT_BASE_URL)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/chat/completions"))


def _headers(request: Request, url: str) -> dict[str, str]:
    profile = request.profile
    headers = {
        "Accept": "text/event-stream, application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
        "User-Agent": f"roboco/{version('roboco')}",
    }
    if base_url_of(profile) is None:
        headers |= account_headers()
    if key := request.credential or model_key(profile):
        azure = "api-version=" in urlsplit(url).query
        headers |= {"api-key": key} if azure else {"Authorization": f"Bearer {key}"}
    return headers | {name: os.environ.get(variable, "") for name, variable in profile.headers.items()}


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for this address, or None."""
    parts = urlsplit(url)
    proxies = getproxies()
    if not proxies or (parts.hostname and proxy_bypass(parts.hostname)):
        return None
    return proxies.get(parts.scheme) or proxies.get("all")


async def _read_reply(
    response: aiohttp.ClientResponse, request: Request, assembly: ReplyAssembly, output: Output
) -> None:
    """Read the chunks to the end of the reply, or to a limit of the assembly."""
    names = frozenset(tool["function"]["name"] for tool in request.tools)
    reader = ChatReader(assembly, names)
    pieces = response.content.iter_any()
    async for chunk in iter_chunks(pieces, response.headers.get("Content-Encoding", "").strip().lower()):
        if chunk is None:
            assembly.ended = True
            break
        text, thought = reader.add_chunk(chunk)
        if text:
            output.say(text)
        if thought:
            output.think(thought)
        output.heard()
        if assembly.exceeded_limit:
            return
    if text := assembly.add_text(""):
        output.say(text)
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(DRAIN_TIMEOUT):
            async for _ in pieces:
                pass


async def _failure_of(response: aiohttp.ClientResponse, sent: dict[str, Any]) -> ServerFailure:
    """Return the refusal, with the first MAX_ERROR_BYTES of its body. Close the connection if there is more."""
    body = bytearray()
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    try:
        with suppress(aiohttp.ClientError, ModelError, TimeoutError):
            async with asyncio.timeout(ERROR_TIMEOUT):
                async for piece in unpacked(response.content.iter_any(), encoding):
                    body += piece
                    if len(body) >= MAX_ERROR_BYTES:
                        break
    finally:
        response.close() if not response.content.at_eof() else response.release()
    text = bytes(body[:MAX_ERROR_BYTES]).removeprefix(b"\xef\xbb\xbf")
    found: Any = text.decode(errors="replace")
    if 300 <= response.status < 400:
        target = without_query(response.headers.get("Location", ""))[:200]
        found = f"it redirects to {target!r}: write that address into `base_url`"
    with suppress(ModelError):
        found = parse_json(text) if response.status >= 400 else found
    found = found or response.reason or "no reason is given"
    return ServerFailure(response.status, found, _retry_after(response), sent)


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Return after how many seconds the server accepts another request, or None if it does not say.

    Reads `retry-after-ms`, or Retry-After in both of its forms.
    """
    milliseconds = parse_seconds(response.headers.get("retry-after-ms", ""))
    return parse_retry_after(response.headers.get("retry-after", "")) if milliseconds is None else milliseconds / 1000

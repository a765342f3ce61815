"""provider: a profile as a model of the library, with the client of its provider, and the settings of its requests.

A profile's `parameters` are merged into the body of each request, as the provider names them. Roboco understands two
of them itself: `cache_control`, which marks the system prompt and the last message for Anthropic's and Bedrock's
prompt cache, and `server_tools`, tools that the provider runs.
"""

import math
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx2
from pydantic import TypeAdapter, ValidationError
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.native_tools import AbstractNativeTool, CodeExecutionTool, FileSearchTool, WebFetchTool, WebSearchTool
from pydantic_ai.settings import ModelSettings

from roboco.domain.canonical_json import canonical_json
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.model.allowlist import base_url_of, bedrock_region, model_key
from roboco.model.chat_wire import CONNECT_TIMEOUT, ERROR_TIMEOUT, MAX_ERROR_BYTES, sent_max_tokens
from roboco.model.learned import Lessons
from roboco.model.native.messages import tool_definition
from roboco.ports.model import Request

MAX_CLIENTS = 64
"""Models of the library that are kept; the one that was not used for the longest time is forgotten first."""
MAX_RESPONSE_BYTES = 64_000_000
BEDROCK_GRACE = 5.0
"""Seconds after the profile's time-outs at which a thread gives up a connection to Bedrock that cannot be closed."""
CACHE_CONTROL = "cache_control"
SERVER_TOOLS = "server_tools"
_SERVER_TOOLS = (WebSearchTool, WebFetchTool, CodeExecutionTool, FileSearchTool)
_SERVER_TOOL: TypeAdapter[AbstractNativeTool] = TypeAdapter(AbstractNativeTool)
EXCHANGE: ContextVar["OpenExchange"] = ContextVar("EXCHANGE")
"""The exchange of the running coroutine."""
_NO_KEY = "none"
"""Sent to a server that needs no key: without any, a package would look for another in the environment."""


@dataclass(frozen=True)
class OpenExchange:
    """A request and its responses. Not every package closes the connection of a reply that is not read to its end."""

    heard: Callable[[], None]
    """Is called for each piece of a reply: keep-alives are signs of life that the library does not show."""
    responses: list[httpx2.Response] = field(default_factory=list)

    async def close(self) -> None:
        """Close the connections of unfinished responses."""
        for response in self.responses:
            await response.aclose()


class Providers:
    """Makes models of the library. They share the connections of one event loop."""

    def __init__(self) -> None:
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
            headers={"Accept-Encoding": "identity"},
            event_hooks={"response": [_bound_response]},
        )
        self._models: OrderedDict[str, Model[Any]] = OrderedDict()

    def model(self, request: Request) -> Model[Any]:
        """Return the model of the request's profile, with its key."""
        profile, key = request.profile, request.credential or model_key(request.profile)
        name = canonical_json([key, profile.model_dump(mode="json")])
        model = self._models.pop(name, None) or _MAKERS[profile.provider](profile, key, self._http)
        self._models[name] = model
        while len(self._models) > MAX_CLIENTS:
            self._models.popitem(last=False)
        return model

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()


def taught(request: Request, lessons: Lessons) -> Request:
    """Return the request without what its server refuses."""
    profile = request.profile
    fields = {
        "omit": (*profile.omit, *lessons.omitted, *lessons.renamed),
        "parameters": profile.parameters | lessons.values,
        "max_tokens": profile.max_tokens and min(profile.max_tokens, lessons.max_output or profile.max_tokens),
    }
    left = request.max_tokens and min(request.max_tokens, lessons.max_output or request.max_tokens)
    return replace(request, profile=profile.model_copy(update=fields), max_tokens=left)


def sent_parameters(request: Request) -> dict[str, Any]:
    """Return what the request adds to messages and tools, under the names of a profile."""
    settings = settings_of(request)
    own = {name: settings[name] for name in ("temperature", "top_p", "max_tokens", "tool_choice") if name in settings}
    return own | {name: value for name, value in request.profile.parameters.items() if name not in request.profile.omit}


def settings_of(request: Request) -> ModelSettings:
    """Return the settings of the request, in the terms of the library."""
    profile = request.profile
    settings: dict[str, Any] = {
        "temperature": profile.temperature,
        "top_p": profile.top_p,
        "max_tokens": _max_tokens(request),
        "tool_choice": "required" if request.tools and request.tool_choice == "required" else None,
        "extra_headers": {name: os.environ.get(variable, "") for name, variable in profile.headers.items()} or None,
    }
    if profile.provider != "bedrock":
        settings["max_retries"] = 0
    if profile.provider in ("anthropic", "openai-responses"):
        settings["extra_body"] = body_parameters(profile) or None
    if profile.provider == "openai-responses":
        settings["openai_store"] = profile.parameters.get("store")
    if (cached := profile.parameters.get(CACHE_CONTROL)) is not None:
        duration = cached.get("ttl", True) if isinstance(cached, Mapping) else bool(cached)
        prefix = "bedrock" if profile.provider == "bedrock" else "anthropic"
        settings |= {f"{prefix}_cache_instructions": duration, f"{prefix}_cache_messages": duration}
    kept = {name: value for name, value in settings.items() if value is not None and name not in profile.omit}
    return cast(ModelSettings, kept)  # a model ignores the settings of others


def parameters_of(request: Request) -> ModelRequestParameters:
    """Return the tools of the request: Roboco's, and those that the provider runs."""
    return ModelRequestParameters(
        function_tools=[tool_definition(tool) for tool in request.tools],
        native_tools=[_server_tool(request, tool) for tool in request.profile.parameters.get(SERVER_TOOLS) or ()],
    )


def body_parameters(profile: ModelProfile) -> dict[str, Any]:
    """Return the parameters that become part of the body."""
    return {
        name: value
        for name, value in profile.parameters.items()
        if name not in (CACHE_CONTROL, SERVER_TOOLS) and name not in profile.omit
    }


def _max_tokens(request: Request) -> int | None:
    """Return the output tokens to ask for. What the limits leave must exceed a budget of thinking, or is not sent."""
    profile = request.profile
    sent = sent_max_tokens(request, None)
    body = profile.parameters.get("additionalModelRequestFields", profile.parameters)
    thinking = body.get("thinking") if isinstance(body, Mapping) else None
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
    return profile.max_tokens if sent is not None and isinstance(budget, int) and sent <= budget else sent


def _server_tool(request: Request, fields: Any) -> AbstractNativeTool:
    fields = {"kind": fields} if isinstance(fields, str) else fields
    kinds = [kind.kind for kind in _SERVER_TOOLS]
    try:
        tool = _SERVER_TOOL.validate_python(dict(fields))
    except (ValidationError, ValueError, TypeError) as error:
        problem = str(error)[:300]
    else:
        if isinstance(tool, _SERVER_TOOLS):
            return tool
        problem = f"kinds: {', '.join(kinds)}"
    raise ModelError("setting", f"model {request.profile.model!r}: server_tools has {fields!r}: {problem}", False)


def _anthropic(profile: ModelProfile, key: str, http: httpx2.AsyncClient) -> Model[Any]:
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=key or _NO_KEY,
        base_url=base_url_of(profile),
        http_client=http,
        max_retries=0,
        open_telemetry=False,
    )
    return AnthropicModel(profile.model, provider=AnthropicProvider(anthropic_client=client))


def _responses(profile: ModelProfile, key: str, http: httpx2.AsyncClient) -> Model[Any]:
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = AsyncOpenAI(api_key=key or _NO_KEY, base_url=base_url_of(profile), http_client=http, max_retries=0)
    return OpenAIResponsesModel(profile.model, provider=OpenAIProvider(openai_client=client))


def _google(profile: ModelProfile, key: str, http: httpx2.AsyncClient) -> Model[Any]:
    from google.genai import Client
    from google.genai.types import HttpOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    options = HttpOptions(
        base_url=base_url_of(profile),
        httpx_async_client=http,
        extra_body=body_parameters(profile) or None,
    )
    client = Client(vertexai=False, api_key=key or _NO_KEY, http_options=options)
    return GoogleModel(profile.model, provider=GoogleProvider(client=client))


def _bedrock(profile: ModelProfile, key: str, http: httpx2.AsyncClient) -> Model[Any]:
    import boto3
    from botocore.config import Config
    from botocore.session import Session
    from botocore.tokens import FrozenAuthToken
    from pydantic_ai.models.bedrock import BedrockConverseModel
    from pydantic_ai.providers.bedrock import BedrockProvider

    class TokenSession(Session):
        """A session that signs with the profile's key and nothing else."""

        def get_auth_token(self, **options: Any) -> FrozenAuthToken:
            return FrozenAuthToken(key)

    config = Config(
        signature_version="bearer" if key else "v4",
        retries={"total_max_attempts": 1},
        connect_timeout=CONNECT_TIMEOUT,
        read_timeout=max(profile.first_token_timeout, profile.idle_timeout) + BEDROCK_GRACE,
        max_pool_connections=200,
    )
    session = boto3.Session(botocore_session=TokenSession() if key else None)
    client = session.client(
        "bedrock-runtime", region_name=bedrock_region(), endpoint_url=base_url_of(profile), config=config
    )
    further = body_parameters(profile)
    client.meta.events.register(
        "provide-client-params.bedrock-runtime.ConverseStream", lambda params, **_: _merged(params, further)
    )
    return BedrockConverseModel(profile.model, provider=BedrockProvider(bedrock_client=client))


_MAKERS: dict[str, Callable[[ModelProfile, str, httpx2.AsyncClient], Model[Any]]] = {
    "anthropic": _anthropic,
    "openai-responses": _responses,
    "google": _google,
    "bedrock": _bedrock,
}


def _merged(body: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with these further fields. Objects in both are joined."""
    merged = dict(body)
    for name, value in further.items():
        before = merged.get(name)
        joined = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[name] = _merged(cast(Mapping[str, Any], before), value) if joined else value
    return merged


async def _bound_response(response: httpx2.Response) -> None:
    """Let a client read no more than it needs, and decompress nothing. A hook for each response, before its body."""
    exchange = EXCHANGE.get()
    exchange.responses.append(response)
    response.headers.pop("content-encoding", None)
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _BoundBody(response.stream, response.status_code, exchange.heard)


class _BoundBody(httpx2.AsyncByteStream):
    """A limited body: that of an error ends after ERROR_TIMEOUT or MAX_ERROR_BYTES, any other fails at its maximum."""

    def __init__(self, body: httpx2.AsyncByteStream, status: int, heard: Callable[[], None]) -> None:
        self._body = body
        self._heard = heard
        self._refused = status >= 300

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_ERROR_BYTES if self._refused else MAX_RESPONSE_BYTES
        end = time.monotonic() + ERROR_TIMEOUT if self._refused else math.inf
        async for piece in self._body:
            self._heard()
            yield piece[:left]
            left -= len(piece)
            if left > 0 and time.monotonic() < end:
                continue
            if self._refused:
                return
            raise ModelError("too_long", f"the model's server sent more than {MAX_RESPONSE_BYTES} bytes", False)

    async def aclose(self) -> None:
        """Close the connection, or return it to the pool if the body has ended."""
        await self._body.aclose()

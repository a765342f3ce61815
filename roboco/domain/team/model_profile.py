"""ModelProfile: a named model of a team, with its limits and prices; and the operator's limits of each model."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from roboco.domain.canonical_json import canonical_json, validated_json
from roboco.domain.schema import CredentialName, EnvVarName, InputModel, Price
from roboco.domain.url import PlainUrl, covers, url_error
from roboco.domain.usage import ModelUsage
from roboco.errors import UsageError

MAX_PARAMETERS_BYTES = 16_384
"""The most bytes of a profile's `parameters`, as JSON."""
ParameterName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")]
OWN_PARAMETERS = {
    "model": "model",
    "messages": "the prompt of an agent",
    "stream": "omit",
    "stream_options": "omit",
    "tools": "tools of an agent",
    "tool_choice": "tool_choice of an agent",
    "response_format": "tool_calls",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "n": "",
    "functions": "tools of an agent",
    "function_call": "tool_choice of an agent",
}
"""Parameters that Roboco sets itself, each with the field that decides it; "" if none does."""
OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding"}
)
NEVER_OMITTED = frozenset({"model", "messages"})
FileKind = Literal["image", "pdf", "audio"]
"""A kind of files that models accept."""
_NOT_SENT: dict[str, frozenset[FileKind]] = {
    "openai-responses": frozenset({"audio"}),
    "anthropic": frozenset({"audio"}),
    "bedrock": frozenset({"audio"}),
    "mistral": frozenset({"audio"}),
    "groq": frozenset({"pdf", "audio"}),
}
"""The kinds that the protocol of a provider has no part for."""
REMOTE_AGENT = "a2a"
"""The provider of a remote agent, and with a colon the beginning of its name in `delegates`."""
Provider = Literal["openai", "openai-responses", "anthropic", "google", "bedrock", "mistral", "groq", "a2a"]


class ModelProfile(InputModel):
    """A named model of a team. Timeouts are in seconds."""

    model: Annotated[str, Field(min_length=1)]
    """The name of the model at its server."""
    provider: Provider = "openai"
    """The protocol of the server: "openai" is chat completions, which most servers speak.

    "a2a" is a remote agent of A2A 1.0: `base_url` is the address of its JSON-RPC interface.
    """
    base_url: PlainUrl | None = None
    api_key_env: EnvVarName | None = None
    """The variable of the agents worker that holds the key."""
    api_key: CredentialName | None = None
    """In place of a variable, the credential of the task's tenant that is the key: `{credential: NAME}`."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(gt=0)] | None = None
    """The most tokens of a reply, reasoning included."""
    parameters: dict[ParameterName, Any] = {}
    """Further parameters of each request, such as `reasoning_effort` or `seed`, as the provider names them."""
    omit: tuple[ParameterName, ...] = ()
    """Parameters that the server does not accept: they are left out of each request."""
    headers: dict[HeaderName, EnvVarName] = {}
    """Further HTTP headers, each with the variable of the agents worker that holds its value."""
    context_window: Annotated[int, Field(ge=100)] | None = None
    """The most tokens that the model takes, prompt and reply together."""
    reasoning: Literal["keep", "stream"] = "keep"
    """Whether reasoning is only kept in the metadata of the step, or published as it arrives as well."""
    fallback: Annotated[tuple[str, ...], Field(max_length=4)] = ()
    """Profiles that answer in its place, in this order, after an outage, without credit or without the model."""
    first_token_timeout: Annotated[float, Field(gt=0)] = 180.0
    idle_timeout: Annotated[float, Field(gt=0)] = 60.0
    tool_calls: Literal["native", "json"] = "native"
    """The way the model calls tools: by the protocol's native means, or by a JSON reply that contains its calls."""
    accepts: tuple[FileKind, ...] = ()
    """The kinds of files that the model accepts. The others are named to it."""
    images: bool = False
    """The earlier form of `accepts: [image]`, which is still read."""
    price_in: Price = 0.0
    """The price of a million input tokens, in the currency of the limits."""
    price_out: Price = 0.0
    """The price of a million output tokens."""
    price_cached_in: Price | None = None
    """The price of a million input tokens that the provider reads from its cache. By default it is `price_in`."""
    price_cache_write: Price | None = None
    """The price of a million input tokens that the provider writes to its cache. By default it is `price_in`."""
    price: Literal["auto"] | None = None
    """With "auto", the client takes the prices from a published list when it submits a task.

    Prices that the profile has are kept.
    """
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """A limit for all tasks of the team, on all workers."""
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """A limit of input and output tokens together, for all tasks of the team, on all workers."""
    outage_timeout: Annotated[float, Field(ge=10)] | None = None
    """Seconds of retries while the model's server refuses a turn or is unreachable; 900 without a value.

    After that the task is paused.
    """
    default: bool = False
    label: str = ""
    """The name of the profile for people."""
    description: str = ""
    """The description for people."""

    @field_validator("parameters")
    @classmethod
    def _bounded_parameters(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if name in OWN_PARAMETERS:
                field = OWN_PARAMETERS[name]
                raise ValueError(f"{name!r} is set by Roboco" + (f": use {field}" if field else ""))
        if len(canonical_json(validated_json(value)).encode()) > MAX_PARAMETERS_BYTES:
            raise ValueError(f"has more than {MAX_PARAMETERS_BYTES} bytes")
        return value

    @field_validator("omit")
    @classmethod
    def _omittable(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if never := NEVER_OMITTED.intersection(value):
            raise ValueError(f"{', '.join(sorted(never))} cannot be left out")
        return value

    @field_validator("headers")
    @classmethod
    def _further_headers(cls, value: dict[str, str]) -> dict[str, str]:
        if own := sorted(name for name in value if name.lower() in OWN_HEADERS):
            raise ValueError(f"{', '.join(own)} is set by Roboco")
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if wrong := sorted(_NOT_SENT.get(self.provider, frozenset()).intersection(self.accepts)):
            raise ValueError(f"accepts: provider {self.provider!r} takes no {wrong[0]}")
        if self.provider == REMOTE_AGENT and self.base_url is None:
            raise ValueError("provider 'a2a' needs base_url, the address of the agent's JSON-RPC interface")
        if self.api_key is not None and self.api_key_env is not None:
            raise ValueError("api_key and api_key_env exclude each other")
        if self.price is None and (self.price_cached_in or self.price_cache_write) and not self.price_in:
            raise ValueError("price_cached_in and price_cache_write need price_in")
        return self

    @property
    def accepted(self) -> frozenset[FileKind]:
        """Return the kinds of files that the model accepts."""
        return frozenset(self.accepts).union(("image",) if self.images else ())

    def key_name(self, tenant: str) -> str:
        """Return what names the key among those of the server for tasks of the tenant, or "" for the usual one."""
        if self.api_key is not None:
            return f"credential:{tenant}:{self.api_key.credential}"
        return self.api_key_env or ""

    @property
    def has_prices(self) -> bool:
        """Return True if calls have a price."""
        return bool(self.price_in or self.price_out)

    def cost(self, used: ModelUsage) -> float:
        """Return the cost of a call with these tokens."""
        cached, written = min(used.cached_in, used.tokens_in), min(used.cache_write, used.tokens_in - used.cached_in)
        read = self.price_in if self.price_cached_in is None else self.price_cached_in
        write = self.price_in if self.price_cache_write is None else self.price_cache_write
        plain = max(0, used.tokens_in - cached - max(0, written))
        parts = (plain * self.price_in, cached * read, max(0, written) * write, used.tokens_out * self.price_out)
        return sum(parts) / 1_000_000


OPENAI_BASE_URL = "https://api.openai.com/v1"
"""The base URL of profiles without one, if OPENAI_BASE_URL is not set."""
_ENTRY = re.compile(r"(?P<model>\S+?)(?:@(?P<address>https?://\S+))?=(?P<requests>\d{1,9})?(?:/(?P<tokens>\d{1,12}))?")


@dataclass(frozen=True)
class ModelLimit:
    """The requests and tokens per minute that a model at an address allows. None is no limit."""

    model: str
    address: str
    requests: int | None = None
    tokens: int | None = None


class ModelLimits:
    """The limits of ROBOCO_MODEL_LIMITS.

    An entry without address applies to `default_address`, the address of OPENAI_BASE_URL.
    """

    def __init__(self, entries: tuple[str, ...] = (), default_address: str = OPENAI_BASE_URL) -> None:
        self._own = default_address
        self._limits = tuple(parse_limit(entry, default_address) for entry in entries)

    @property
    def entries(self) -> tuple[ModelLimit, ...]:
        """All limits, in the order of their entries."""
        return self._limits

    def for_profile(self, profile: ModelProfile) -> ModelLimit:
        """Return the limit of the profile's model at its address, or above it.

        If there is none, return one without numbers.
        """
        address = profile.base_url or self._own
        for one in self._limits:
            same = one.address.rstrip("/") == address.rstrip("/")
            if one.model == profile.model and (same or covers(one.address, address)):
                return one
        return ModelLimit(profile.model, address.rstrip("/"))


def parse_limit(entry: str, default_address: str = OPENAI_BASE_URL) -> ModelLimit:
    """Parse `MODEL@ADDRESS=REQUESTS/TOKENS`.

    Raise UsageError if the entry has another form.
    """
    found = _ENTRY.fullmatch(entry)
    if found is None or not (found["requests"] or found["tokens"]):
        raise UsageError(f"{entry!r} is no limit: write MODEL@ADDRESS=REQUESTS/TOKENS, MODEL=REQUESTS or MODEL=/TOKENS")
    if found["address"] and (mistake := url_error(found["address"])):
        raise UsageError(f"{entry!r}: its address {mistake}")
    requests, tokens = (int(one) if one else None for one in (found["requests"], found["tokens"]))
    if 0 in (requests, tokens):
        raise UsageError(f"{entry!r} allows nothing: limits are at least 1")
    return ModelLimit(found["model"], found["address"] or default_address, requests, tokens)

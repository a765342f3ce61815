"""Settings: environment variables `ROBOCO_*`, read once into one frozen object."""

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from roboco.domain.team.model_limits import read_limit
from roboco.domain.url import without_credentials
from roboco.errors import UsageError

PREFIX = "ROBOCO_"


class Settings(BaseModel):
    """All settings; field `redis_url` is the variable ROBOCO_REDIS_URL, and so on. Times in seconds.

    Neither its repr nor its errors show a password.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    redis_url: str = "redis://127.0.0.1:6379/0"
    broker_url: str | None = None
    workspace: str = f"file://{Path('.roboco/workspace').absolute()}"
    s3_endpoint_url: str | None = None
    s3_timeout: Annotated[float, Field(ge=0.1, le=300)] = 20.0
    teams: Path | None = None
    tools: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    model_limits: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    mcp_env: tuple[str, ...] = ()
    mcp_sandbox: Literal["network", "offline", "off"] = "network"
    mcp_paths: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()
    webhook_env: tuple[str, ...] = ()
    callback_broker_url: str | None = None
    allowed_callbacks: tuple[str, ...] = ()
    cache: Path | None = None
    embeddings_model: str | None = None
    embeddings_base_url: str | None = None
    embeddings_api_key_env: str = "OPENAI_API_KEY"
    message_keys: Annotated[tuple[str, ...], Field(repr=False)] = ()
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "roboco"
    turn_lease: Annotated[float, Field(ge=0.5, le=3600)] = 15.0
    ring_pause: Annotated[float, Field(ge=0.1, le=3600)] = 10.0
    sweep_interval: Annotated[float, Field(ge=0.05, le=60)] = 0.5
    attempts: Annotated[int, Field(ge=1, le=100)] = 5
    coordinator_limit: Annotated[float, Field(ge=1, le=86_400)] = 300.0
    outage_limit: Annotated[float, Field(ge=1, le=86_400)] = 900.0
    keep: Annotated[int, Field(ge=1)] = 86_400
    agents_concurrency: Annotated[int, Field(ge=1)] = 100
    sandbox_memory: Annotated[int | None, Field(ge=1, le=1_048_576)] = None
    max_queued: Annotated[int | None, Field(ge=1)] = None
    tenant: Annotated[str | None, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = None
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    metrics_address: str = "0.0.0.0"  # noqa: S104  # as exporters of metrics do; nothing listens without a port
    log: Literal["text", "json"] = "text"
    traces: Literal["on", "off"] | None = None
    health: Path | None = None
    health_limit: Annotated[float, Field(ge=0.5, le=3600)] = 60.0

    @field_validator("redis_url", "broker_url", "callback_broker_url")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        for url in re.split(r"[;,]", value or ""):  # addresses of Sentinels, or nodes of a cluster
            try:
                _ = urlsplit(url if "//" in url else f"//{url}").port
            except ValueError:  # whose message quotes what may be the password
                raise ValueError("is no address: write a '/', '#', '?' or ':' of its password as %XX") from None
        return value

    @field_validator("message_keys")
    @classmethod
    def _long_enough(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(len(key) < 32 for key in value):
            raise ValueError("holds a key of fewer than 32 characters: make one with `openssl rand -hex 32`")
        return value

    @field_validator("model_limits")
    @classmethod
    def _are_limits(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            try:
                read_limit(entry)
            except UsageError as error:
                raise ValueError(str(error)) from None
        return value

    @field_validator("workspace", "s3_endpoint_url", "embeddings_base_url")
    @classmethod
    def _without_credentials(cls, value: str | None) -> str | None:
        if value is not None and without_credentials(value) != value and not value.startswith("file:"):
            raise ValueError("holds a user or password: name them by AWS_ACCESS_KEY_ID and so on, or a key's variable")
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _shown(value)

    @property
    def broker(self) -> str:
        """The broker's URL: the Redis, unless another is named."""
        return self.broker_url or self.redis_url

    @property
    def cache_folder(self) -> Path:
        """Where a worker keeps what it can make again: `cache`, or a folder of this user's among temporary files."""
        return self.cache or Path(tempfile.gettempdir()) / f"roboco-cache-{os.getuid()}"

    def environment(self) -> dict[str, str]:
        """The variables that give another process the same settings."""
        fields = self.model_dump(exclude_none=True)
        return {f"{PREFIX}{name.upper()}": _text(value) for name, value in fields.items() if value != ()}


_LISTS = frozenset(
    {
        "TOOLS",
        "MODELS",
        "MODEL_LIMITS",
        "MCP",
        "MCP_ENV",
        "MCP_PATHS",
        "MESSAGE_KEYS",
        "WEBHOOKS",
        "WEBHOOK_ENV",
        "ALLOWED_CALLBACKS",
    }
)
_ELSEWHERE = frozenset({"LOCAL_MODEL"})


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of the environment; UsageError names every wrong variable, its value and what is possible."""
    fields: dict[str, object] = {}
    for variable, value in environment.items():
        name = variable.removeprefix(PREFIX)
        if variable.startswith(PREFIX) and name not in _ELSEWHERE and value != "":
            fields[name.lower()] = _listed(value) if name in _LISTS else value
    try:
        return Settings.model_validate(fields)
    except ValidationError as error:
        raise UsageError(
            "; ".join(_told(str(one["loc"][0]), one["type"], one["msg"], one["input"]) for one in error.errors())
        ) from error


def _listed(value: str) -> tuple[str, ...]:
    return tuple(filter(None, (one.strip() for one in value.split(","))))


def _told(name: str, kind: str, message: str, found: object) -> str:
    variable = f"{PREFIX}{name.upper()}"
    if kind == "extra_forbidden":
        possible = ", ".join(f"{PREFIX}{field.upper()}" for field in Settings.model_fields)
        return f"{variable} is no setting, possible are {possible}"
    if kind == "value_error":  # of what may hold a password
        return f"{variable} {message.removeprefix('Value error, ')}"
    return f"{variable}={found!r}: {message}"


def _shown(value: Any) -> Any:
    match value:
        case str():
            return without_credentials(value)
        case tuple():
            return tuple(map(_shown, value))
        case _:
            return value


def _text(value: object) -> str:
    return ",".join(value) if isinstance(value, tuple) else str(value)

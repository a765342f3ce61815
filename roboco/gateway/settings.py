"""GatewaySettings: environment variables `ROBOCO_GATEWAY_*`, read once into one frozen object."""

import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from roboco.domain.access_key import CallerLimits
from roboco.domain.url import url_error
from roboco.settings import parse_settings

PREFIX: Final = "ROBOCO_GATEWAY_"
Ceiling = Annotated[int, Field(ge=0)]
CostCeiling = Annotated[float, Field(ge=0)]


def _split(value: Any) -> Any:
    """Return the parts of a text between commas."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


class GatewaySettings(BaseModel):
    """Settings of the HTTP gateway: `max_body` is the variable ROBOCO_GATEWAY_MAX_BODY, and so on. Times in seconds.

    A limit of 0 is none. `roboco/docs/settings.md` is generated from the docstrings of the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    authentication: bool = True
    """Whether requests need a key or token. Without authentication the gateway serves this machine alone."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of this gateway in the header Host, without ports; without authentication in addition to loopback."""
    cors_origins: tuple[str, ...] = ()
    """Origins of other web pages that may call the gateway, such as `https://shop.example`. Without it none may."""
    cookie_secret: Annotated[tuple[str, ...], Field(repr=False)] = ()
    """Secrets of at least 32 characters that sign the cookies of browsers. Without it browsers cannot sign in.

    The first one signs; a cookie signed with any of them is accepted. All processes need the same value.
    """
    session_seconds: Annotated[int, Field(ge=60, le=30 * 86_400)] = 43_200
    """Seconds for which a browser is signed in."""
    oidc_issuer: str | None = None
    """Address of an OpenID Connect provider whose tokens are accepted as keys are; without it none."""
    oidc_audience: str | None = None
    """The value of `aud` in tokens for this gateway. It is required with a provider."""
    oidc_tenant_claim: str = "tenant"
    """The claim with the tenant. A token without it needs the scope `operate`."""
    oidc_scope_claim: str = "scope"
    """The claim with the scopes: a list, or a text with spaces."""
    oidc_scope_prefix: str = "roboco:"
    """The prefix of this gateway's scopes in that claim, as in `roboco:read`."""
    oidc_teams_claim: str | None = None
    """The claim with the names of the teams that the caller may use; without a name of a claim all teams."""
    call_timeout: Annotated[float, Field(ge=0.1, le=60)] = 10.0
    """Seconds after which a request gets 503, if Redis or the store has not answered."""
    max_body: Annotated[int, Field(ge=1024)] = 8 * 1024 * 1024
    """Bytes of a request's body, except for uploads of files."""
    max_values: Annotated[int, Field(ge=1000)] = 50_000
    """Values of a request's body: the members of all its objects and arrays. Each delays other streams a little."""
    max_upload: Annotated[int, Field(ge=1024)] = 5 * 1024**3
    """Bytes of an uploaded file."""
    link_seconds: Annotated[int, Field(ge=0, le=604_800)] = 0
    """Seconds for which a redirect to the S3 store lets its reader load a file; 0 for no redirects."""
    stream_seconds: Annotated[float, Field(ge=1, le=86_400)] = 600.0
    """Seconds after which a stream ends at an event; its client resumes."""
    requests_per_minute: Ceiling = 600
    """Requests of each key: as many at once, and then as many a minute."""
    bytes_per_minute: Ceiling = 1024**3
    """Bytes of the requests of each key. A larger upload is accepted whole, and delays the next request."""
    open_streams: Ceiling = 1000
    """Streams that each key holds open at the same time."""
    open_tasks: Ceiling = 10_000
    """Open tasks that each key has created."""
    open_bytes: Ceiling = 128 * 1024**2
    """Bytes of the requests that have created open tasks of each key, at most 160 KB of each task."""
    tokens_per_day: Ceiling = 0
    """Tokens of models that the tasks of each key use in a day (UTC)."""
    cost_per_day: CostCeiling = 0.0
    """Cost of the tasks of each key in a day (UTC), in the currency of the prices."""
    tenant_requests_per_minute: Ceiling = 0
    """Requests of all keys of a tenant together."""
    tenant_bytes_per_minute: Ceiling = 0
    """Bytes of the requests of all keys of a tenant together."""
    tenant_open_streams: Ceiling = 0
    """Streams that all keys of a tenant together hold open at the same time."""
    tenant_open_tasks: Ceiling = 20_000
    """Open tasks that all keys of a tenant together have created."""
    tenant_open_bytes: Ceiling = 256 * 1024**2
    """Bytes of the requests that have created open tasks of a tenant, at most 160 KB of each task."""
    tenant_tokens_per_day: Ceiling = 0
    """Tokens that the tasks of a tenant use in a day (UTC)."""
    tenant_cost_per_day: CostCeiling = 0.0
    """Cost of the tasks of a tenant in a day (UTC)."""
    max_steps: Ceiling = 1000
    """Steps of each task that is created through the gateway, if its team allows more."""
    max_tokens: Ceiling = 5_000_000
    """Tokens of each task that is created through the gateway, if its team allows more."""
    max_cost: CostCeiling = 0.0
    """Cost of each task that is created through the gateway, if its team allows more."""
    max_seconds: CostCeiling = 0.0
    """Seconds of each task that is created through the gateway, if its team allows more."""
    openai_ignore: Annotated[tuple[str, ...], BeforeValidator(_split)] = ()
    """Parameters of OpenAI's requests that are ignored instead of refused, with commas: `temperature,max_tokens`."""
    openai_on_disconnect: Literal["continue", "stop"] = "continue"
    """Whether a chat completion goes on if its client disconnects. The header X-Roboco-On-Disconnect overrides it."""
    flower_url: str | None = None
    """The address of Flower, as operators reach it: the page and the API link to it. Without it they do not."""
    ping_seconds: Annotated[float, Field(ge=0.1, le=300)] = 15.0
    """Seconds of silence after which a stream sends a comment, so that proxies keep it."""
    roboto_team: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")] = None
    """The team of ROBOCO_TEAMS_DIR that new chats of roboto.ai's client run, or None to refuse them."""
    roboto_poll_seconds: Annotated[float, Field(ge=0, le=25)] = 20.0
    """Seconds that a delta of roboto.ai's client waits for news while the team works."""

    @field_validator("cookie_secret")
    @classmethod
    def _check_cookie_secret(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(len(secret) < 32 for secret in value):
            raise ValueError("holds a secret of fewer than 32 characters: make one with `openssl rand -hex 32`")
        return value

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if self.oidc_issuer is not None and self.oidc_audience is None:
            raise ValueError("ROBOCO_GATEWAY_OIDC_AUDIENCE is required with ROBOCO_GATEWAY_OIDC_ISSUER")
        return self

    @field_validator("flower_url")
    @classmethod
    def _check_flower_url(cls, value: str | None) -> str | None:
        if value is not None and (mistake := url_error(value)):
            raise ValueError(mistake)
        return value and value.rstrip("/")

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if re.fullmatch(r"https?://[a-z0-9.\[\]:-]+", origin) is None:
                raise ValueError(f"must hold origins such as https://shop.example, in lower case (found {origin!r})")
        return value

    def caller_limits(self) -> CallerLimits:
        """Return the limits of each caller. A setting of 0 is no limit."""
        return CallerLimits.model_validate({name: getattr(self, name) or None for name in CallerLimits.model_fields})

    def tenant_limits(self) -> CallerLimits:
        """Return the limits of all callers of a tenant together."""
        names = (name for name in CallerLimits.model_fields if f"tenant_{name}" in GatewaySettings.model_fields)
        return CallerLimits.model_validate({name: getattr(self, f"tenant_{name}") or None for name in names})


def load_gateway_settings(environment: Mapping[str, str] = os.environ) -> GatewaySettings:
    """Return the settings of the environment. Raise UsageError with each wrong variable and the problem."""
    return parse_settings(GatewaySettings, PREFIX, environment, lambda _: False)

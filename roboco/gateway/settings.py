"""GatewaySettings: environment variables `ROBOCO_GATEWAY_*`, read once into one frozen object."""

import os
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from roboco.domain.access_key import CallerLimits
from roboco.domain.inbox.attachments import Sampling
from roboco.domain.url import url_error
from roboco.settings import Secrets, parse_settings, split_list

PREFIX: Final = "ROBOCO_GATEWAY_"
DEFAULT_LIMITS: Final = CallerLimits(
    requests_per_minute=600,
    bytes_per_minute=1024**3,
    open_streams=1000,
    open_tasks=10_000,
    open_bytes=128 * 1024**2,
    max_steps=1000,
    max_tokens=5_000_000,
)
DEFAULT_TENANT_LIMITS: Final = CallerLimits(open_tasks=20_000, open_bytes=256 * 1024**2)
_OF_TENANTS: Final = tuple(name for name in CallerLimits.model_fields if not name.startswith("max_"))


class OidcClaims(BaseModel):
    """The names of the claims of a token."""

    model_config = ConfigDict(frozen=True)

    tenant: str = "tenant"
    """The claim with the tenant."""
    scope: str = "scope"
    """The claim with the scopes."""
    teams: str | None = None
    """The claim with the names of the teams that the caller may use, or None if it may use all."""
    utility_model: str | None = None
    """The claim with the profile that answers the caller's side requests, or None."""


def _read_pairs(defaults: BaseModel, names: Collection[str] = ()) -> BeforeValidator:
    """Return a reader of `NAME=VALUE,NAME=VALUE`, which changes fields of the defaults. A value of 0 is none."""
    known = names or type(defaults).model_fields

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        fields = defaults.model_dump()
        for pair in split_list(value):
            name, _, text = pair.partition("=")
            if name not in known or not text:
                raise ValueError(f"must hold NAME=VALUE with names of {', '.join(known)} (found {pair!r})")
            fields[name] = None if text == "0" else text
        return fields

    return BeforeValidator(read)


class GatewaySettings(BaseModel):
    """Settings of the HTTP gateway: `max_upload` is the variable ROBOCO_GATEWAY_MAX_UPLOAD, and so on.

    Times are in seconds. `roboco/docs/settings.md` is generated from the docstrings of the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    authentication: bool = True
    """Whether requests need a key or token. Without authentication the gateway serves this machine alone."""
    allowed_hosts: tuple[str, ...] = ()
    """Names of this gateway in the header Host, without ports; without authentication in addition to loopback."""
    cors_origins: tuple[str, ...] = ()
    """Origins of other web pages that may call the gateway, such as `https://shop.example`. Without it none may."""
    cookie_secret: Secrets = ()
    """Secrets of at least 32 characters that sign the cookies of browsers. Without it browsers cannot sign in.

    The first one signs; a cookie signed with any of them is accepted. All processes need the same value.
    """
    oidc_issuer: str | None = None
    """Address of an OpenID Connect provider whose tokens are accepted as keys are; without it none."""
    oidc_audience: str | None = None
    """The value of `aud` in tokens for this gateway. It is required with a provider."""
    oidc_claims: Annotated[OidcClaims, _read_pairs(OidcClaims())] = OidcClaims()
    """Names of the claims with tenant, scopes, teams and utility model.

    A scope is `roboco:read` and so on, in a list, or in a text with spaces. A token without a tenant needs the scope
    `operate`. With `teams=groups` the claim `groups` has the names of the teams that the caller may use; else all.
    """
    call_timeout: Annotated[float, Field(ge=0.1, le=60)] = 10.0
    """Seconds after which a request gets 503, if Redis or the store has not answered."""
    max_upload: Annotated[int, Field(ge=1024)] = 5 * 1024**3
    """Bytes of an uploaded file."""
    link_seconds: Annotated[int, Field(ge=0, le=604_800)] = 0
    """Seconds for which a redirect to the S3 store lets its reader load a file; 0 for no redirects."""
    stream_seconds: Annotated[float, Field(ge=1, le=86_400)] = 600.0
    """Seconds after which a stream ends at an event; its client resumes."""
    limits: Annotated[CallerLimits, _read_pairs(DEFAULT_LIMITS)] = DEFAULT_LIMITS
    """Limits of each key. A list changes those that it names; 0 is no limit.

    They are `requests_per_minute` (as many at once), `bytes_per_minute` of requests (a larger upload is accepted whole,
    and delays the next request), `open_streams`, `open_tasks` that it has created, `open_bytes` of the requests that
    have created these (at most 160 KB of each task), `tokens_per_day` and `cost_per_day` of its tasks (UTC), and of
    each task that is created through the gateway `max_steps`, `max_tokens`, `max_cost` and `max_seconds`, if its team
    allows more.
    """
    tenant_limits: Annotated[CallerLimits, _read_pairs(DEFAULT_TENANT_LIMITS, _OF_TENANTS)] = DEFAULT_TENANT_LIMITS
    """Limits of all keys of a tenant together: those of a key before `max_steps`."""
    openai_pass: tuple[str, ...] = ()
    """Sampling parameters of OpenAI's requests that reach the models, such as `temperature,seed`; others are ignored.

    They are `temperature`, `top_p`, `max_tokens`, `seed`, `frequency_penalty`, `presence_penalty`, `reasoning_effort`
    and `verbosity`.
    """
    flower_url: str | None = None
    """The address of Flower, as operators reach it: the page and the API link to it. Without it they do not."""
    roboto_team: Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")] = None
    """The team of ROBOCO_TEAMS_DIR that new chats of roboto.ai's client run; without it they are refused."""

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

    @field_validator("openai_pass")
    @classmethod
    def _check_passed(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if unknown := [name for name in value if name not in Sampling.model_fields]:
            raise ValueError(f"must hold names of {', '.join(Sampling.model_fields)} (found {unknown[0]!r})")
        return value

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if re.fullmatch(r"https?://[a-z0-9.\[\]:-]+", origin) is None:
                raise ValueError(f"must hold origins such as https://shop.example, in lower case (found {origin!r})")
        return value


def load_gateway_settings(environment: Mapping[str, str] = os.environ) -> GatewaySettings:
    """Return the settings of the environment. Raise UsageError with each wrong variable and the problem."""
    return parse_settings(GatewaySettings, PREFIX, environment, lambda _: False)

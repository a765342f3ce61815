"""Settings: environment variables `ROBOCO_*`, read once into one frozen object."""

import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from roboco.allowlist import Allowlist, read_allowlist
from roboco.domain.day_budget import parse_budget
from roboco.domain.removal.retention import RetentionRule, parse_rule
from roboco.domain.schema import FUNCTION_PATTERN, CallerId
from roboco.domain.team.model_profile import parse_limit
from roboco.domain.url import strip_credentials
from roboco.errors import UsageError
from roboco.removed_settings import REMOVED

PREFIX = "ROBOCO_"
SettingsModel = TypeVar("SettingsModel", bound=BaseModel)


def _each(parse: Callable[[str], object]) -> AfterValidator:
    """Return a validator of a list whose entries `parse` accepts."""

    def check(entries: tuple[str, ...]) -> tuple[str, ...]:
        try:
            for entry in entries:
                parse(entry)
        except UsageError as error:
            raise ValueError(str(error)) from None
        return entries

    return AfterValidator(check)


def _check_secrets(secrets: tuple[str, ...]) -> tuple[str, ...]:
    if any(len(secret) < 32 for secret in secrets):
        raise ValueError("holds a key of fewer than 32 characters: make one with `openssl rand -hex 32`")
    return secrets


Secrets = Annotated[tuple[str, ...], Field(repr=False), AfterValidator(_check_secrets)]
"""Keys that sign. The first one signs, and a signature with any of them is accepted."""


class Settings(BaseModel):
    """All settings. Field `redis_url` is the environment variable ROBOCO_REDIS_URL, and so on; times are in seconds.

    Neither the repr nor an error shows a password. `roboco/docs/settings.md` is generated from the docstrings of
    the fields: the first line goes into a table, the other lines follow the table.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    redis_url: str = "redis://127.0.0.1:6379/0"
    """Address of the Redis that holds state and streams.

    A Redis, a separate database in one, or a cluster (`redis+cluster://HOST:PORT,HOST:PORT`). The databases of a
    Redis share their channels, so each deployment on it needs its own `ROBOCO_PREFIX`. With a password the
    address is `redis://USER:PASSWORD@HOST:PORT/DATABASE`. Write a `/`, `#`, `?`, `:`, `@` or `%` of the password as
    `%XX`.
    """
    broker_url: str | None = None
    """Address of Celery's broker: a Redis, or RabbitMQ (`amqp://`, `amqps://`).

    Without it the Redis of `ROBOCO_REDIS_URL` is the broker. It is required with a Redis Cluster, which Celery does
    not support as a broker. The names of queues are fixed: each deployment needs its own database of Redis, or its own
    virtual host of RabbitMQ. A worker does not start on the broker of another prefix or workspace.
    """
    workspace: str = f"file://{Path('.roboco/workspace').absolute()}"
    """Address of the workspace: `file:///FOLDER`, or `s3://BUCKET/PREFIX`.

    Credentials of S3 are found as boto3 finds them. All clients and workers must name the same workspace.
    """
    s3_endpoint_url: str | None = None
    """Address of an S3-compatible store; without it AWS S3."""
    s3_timeout: Annotated[float, Field(ge=0.1, le=300)] = 20.0
    """Seconds to wait for each answer of the S3 store.

    A request is tried four times.
    """
    teams_dir: Path | None = None
    """Folder of the teams that a submission can name.

    Coordinators read these teams as the operator's: such a team may name files beside it.
    """
    tool_modules: tuple[str, ...] = ()
    """Python modules whose functions teams may use as tools.

    Each worker imports them when it starts, also from its current folder, and exits if an import fails. It imports
    them before it forks: open connections within functions.
    """
    allowlist: Annotated[Allowlist, BeforeValidator(read_allowlist)] = Allowlist()
    """YAML file of the servers, variables, paths and Celery tasks that teams may use; without it none.

    Its keys are in the table below, and each has a list; an address allows all addresses below it. Clients that submit
    and all workers need the same file, and read it when they start. It has at most 64 KB, and no secrets: it names the
    variables that hold them. A value that begins with `{` is the content as JSON.
    """
    model_limits: Annotated[tuple[str, ...], _each(parse_limit)] = ()
    """Requests and tokens per minute of each model, for all teams and tenants together.

    An entry is `MODEL@ADDRESS=REQUESTS/TOKENS`; `MODEL=REQUESTS` and `MODEL=/TOKENS` are for the server of
    `OPENAI_BASE_URL`. All workers need the same value.
    """
    tenant_budgets: Annotated[tuple[str, ...], _each(parse_budget)] = ()
    """Cost and tokens that all tasks of a tenant may use in a day (UTC); further turns wait for the next day.

    An entry is `TENANT=COST/TOKENS`, `TENANT=COST` or `TENANT=/TOKENS`; the tenant `*` means each other tenant.
    All workers need the same value.
    """
    mcp_tokens: str | None = None
    """Function `package.module:name` that returns the OAuth token of a task's user or tenant for an MCP server.

    Its keyword arguments are `url`, `tenant`, `user` and `refresh`. Tools workers import it.
    """
    credentials: Annotated[str | None, Field(pattern=FUNCTION_PATTERN)] = None
    """Function `package.module:name` that returns a credential: `function(tenant, name) -> str`.

    Workers import it, call it when a tool, a model or an MCP server needs the credential, and use the value for 60 s.
    It decides which tenant has which credential: [what belongs where](belongs.md#credentials).
    """
    mcp_sandbox: Literal["network", "offline", "off"] = "network"
    """Confinement of MCP servers that a tools worker starts.

    `network`: confined, with the worker's network. `offline`: confined, without a network. `off`: not confined.
    """
    callback_broker_url: str | None = None
    """Address of the broker of your own Celery tasks; without it Roboco's broker.

    Coordinators send callbacks there, and the Celery tasks that are tools. Set it for the workers of your application
    with a canvas, too.
    """
    embeddings_model: str | None = None
    """Embedding model of `memory_search`, which needs the extra `memory`; without it the model of the extra.

    `MODEL` is one of the server of `OPENAI_BASE_URL`, `MODEL@ADDRESS` one of another server. That server gets the key
    in the variable that `model_servers` of the allowlist names with its address.
    """
    signing_keys: Secrets = ()
    """Keys of at least 32 characters that sign Celery messages.

    The first key signs; a message signed with any of them is accepted. If a key is set, workers keep unsigned
    messages as dead letters and do not run them.
    """
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,40}$")] = "roboco"
    """First part of the keys and channels of the state: up to 40 letters, digits, `_`, `.` or `-`.

    It does not name the queues of the broker: a second deployment also needs another `ROBOCO_BROKER_URL`.
    """
    lease_seconds: Annotated[float, Field(ge=0.5, le=3600)] = 15.0
    """Seconds for which a claim is valid without a heartbeat.

    The workers that hold turns, tool calls, attempts and notifications renew their claims three times in this time.
    If a worker dies, another one continues its work after this time. The sweeper checks work that no worker claims
    after two thirds of it; the delay doubles each time.
    """
    drain_timeout: Annotated[float, Field(ge=0, le=86_400)] = 25.0
    """Seconds after SIGTERM in which a worker's turns and tool calls may end; then it hands them over to others.

    Set it to less than the grace period after which the supervisor kills the worker.
    """
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5
    """Number of attempts at work during which its worker dies.

    After the last one the work fails and becomes a dead letter.
    """
    retention: Annotated[int, Field(ge=1)] = 86_400
    """Seconds for which an ended task stays in Redis."""
    retention_rules: Annotated[tuple[str, ...], _each(parse_rule)] = ()
    """Rules by which coordinators remove ended tasks; without them the workspace keeps every task.

    A rule is written as conditions and one action: `tenant=acme status=failed|cancelled delete=30d`, or
    `tenant=legal keep`. The conditions are `tenant`, `team` and `status`. The first rule that covers a task counts. All
    coordinators need the same value.
    """
    index_retention: Annotated[float, Field(ge=0.01, le=36_500)] = 30.0
    """Days for which `roboco tasks` lists an ended task, and all workers need the same value.

    It lists 100,000 ended tasks at most. The workspace keeps all of them.
    """
    agents_concurrency: Annotated[int, Field(ge=1)] = 100
    """Number of turns that one agents worker runs at the same time."""
    sandbox_memory: Annotated[int | None, Field(ge=1, le=1_048_576)] = None
    """MiB of memory for all sandboxes of a tools worker together, files included.

    Each call that can run at the same time gets an equal share. Without it the worker takes the container's memory
    limit minus 96 MiB for each process; without such a limit each sandbox has its full size.
    """
    max_queued: Annotated[int | None, Field(ge=1)] = None
    """Number of turns that wait for workers or their start time at which new tasks are refused; without it none is."""
    tenant: Annotated[str | None, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = None
    """Tenant of a client, which can then name only that tenant's tasks; without it all tasks."""
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port at which a worker or a gateway serves Prometheus metrics; 0 serves none."""
    metrics_address: str = "0.0.0.0"  # noqa: S104  # as exporters of metrics do; nothing listens without a port
    """Address to which the metrics' port is bound."""
    caller: CallerId | None = None
    """Identity of a client for its controls that name no caller.

    Histories and the audit log show it. The command line uses `cli:USER@HOST` without it.
    """
    audit_log: Path | None = None
    """File to which each control, approval, change of limits and act of an operator adds JSON lines.

    A line before the act has the outcome `begun`; one after it says how it ended, and also goes to the logger
    `roboco.audit`. It is a regular file, `/dev/stdout` or `/dev/stderr`. While it cannot be opened or written,
    controls are refused.
    """
    log_format: Literal["text", "json"] = "text"
    """Format of a worker's log.

    With `json` each line is one JSON object that names task, step and agent.
    """
    health_dir: Path | None = None
    """Folder, one for each worker, in which the worker notes that it receives and does work, for `roboco health`.

    A worker without such a note for 60 s is unhealthy.
    """

    @field_validator("redis_url", "broker_url", "callback_broker_url")
    @classmethod
    def _check_addresses(cls, value: str | None) -> str | None:
        for url in re.split(r"[;,]", value or ""):  # addresses of Sentinels, or nodes of a cluster
            try:
                _ = urlsplit(url if "//" in url else f"//{url}").port
            except ValueError:  # its message may quote the password
                raise ValueError("is not an address: write a '/', '#', '?' or ':' of its password as %XX") from None
        return value

    @field_validator("workspace", "s3_endpoint_url", "embeddings_model")
    @classmethod
    def _check_no_credentials(cls, value: str | None) -> str | None:
        if value is not None and strip_credentials(value) != value and not value.startswith("file:"):
            raise ValueError("holds a user or password: name them by AWS_ACCESS_KEY_ID and so on, or a key's variable")
        return value

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, _without_passwords(value)

    @property
    def broker(self) -> str:
        """Return the URL of the broker: `broker_url`, or the Redis."""
        return self.broker_url or self.redis_url

    @property
    def workspace_address(self) -> str:
        """Return the place of the workspace, for people: with the S3 endpoint, or with the name of a folder's host."""
        if self.workspace.startswith("file:"):
            return f"{strip_credentials(self.workspace)} on {socket.gethostname()}"
        endpoint = f" at {self.s3_endpoint_url}" if self.s3_endpoint_url else ""
        return strip_credentials(f"{self.workspace}{endpoint}")

    @property
    def parsed_retention_rules(self) -> tuple[RetentionRule, ...]:
        """Return `retention_rules` as the engine needs them."""
        return tuple(map(parse_rule, self.retention_rules))

    @property
    def redelivery_delay(self) -> float:
        """Return the seconds until the sweeper checks work that no worker has claimed."""
        return self.lease_seconds * 2 / 3

    @property
    def sweep_interval(self) -> float:
        """Return the seconds between two passes of the sweeper over the tasks that are due."""
        return min(0.5, self.lease_seconds / 10)

    def environment(self) -> dict[str, str]:
        """Return the variables that give another process the same settings."""
        return {variable_of(name): _to_text(value) for name, value in self if value not in (None, ())}


def load_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of the environment. Raise UsageError with each wrong variable, its value and the problem."""
    return parse_settings(Settings, PREFIX, environment, _is_read_elsewhere)


def parse_settings(
    model: type[SettingsModel], prefix: str, environment: Mapping[str, str], ignores: Callable[[str], bool]
) -> SettingsModel:
    """Return the settings of the variables with this prefix. Raise UsageError with each wrong variable.

    Each field of `model` is a variable, unless `ignores` returns True for its name. A field that is a tuple of texts
    is a list, whose entries are separated by commas.
    """
    lists = {name for name, field in model.model_fields.items() if field.annotation == tuple[str, ...]}
    fields: dict[str, object] = {}
    for variable, value in environment.items():
        name = variable.removeprefix(prefix).lower()
        if variable.startswith(prefix) and not ignores(name) and value != "":
            fields[name] = split_list(value) if name in lists else value
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        known = [f"{prefix}{name.upper()}" for name in model.model_fields]
        messages = (
            _message(f"{prefix}{str(wrong['loc'][0]).upper()}", wrong["type"], wrong["msg"], wrong["input"], known)
            if wrong["loc"]
            else wrong["msg"].removeprefix("Value error, ")  # of several settings together
            for wrong in error.errors()
        )
        raise UsageError("; ".join(messages)) from error


def _is_read_elsewhere(name: str) -> bool:
    """Return True for the variables of the HTTP gateway, and for the local model, chosen before there are settings."""
    return name == "local_model" or name.startswith("gateway_")


def variable_of(field: str) -> str:
    """Return the environment variable of a field."""
    return f"{PREFIX}{field.upper()}"


def split_list(value: str) -> tuple[str, ...]:
    """Return the entries of a list between commas."""
    return tuple(filter(None, (entry.strip() for entry in value.split(","))))


def _message(variable: str, kind: str, message: str, value: object, known: Sequence[str]) -> str:
    """Return the message of a validation error."""
    if kind == "extra_forbidden" and variable in REMOVED:
        return f"{variable} is no setting any more: {REMOVED[variable]}"
    if kind == "extra_forbidden":
        nearest = get_close_matches(variable, known, n=3)
        similar = f"similar: {', '.join(nearest)}; " if nearest else ""
        return f"{variable} is not a setting; {similar}`roboco docs settings` lists all"
    if kind == "value_error":  # the value may hold a password
        return f"{variable} {message.removeprefix('Value error, ')}"
    return f"{variable}={value!r}: {message}"


def _without_passwords(value: Any) -> Any:
    match value:
        case str():
            return strip_credentials(value)
        case tuple():
            return tuple(map(_without_passwords, value))
        case _:
            return value


def _to_text(value: object) -> str:
    if isinstance(value, Allowlist):
        return value.model_dump_json(exclude_defaults=True)
    return ",".join(value) if isinstance(value, tuple) else str(value)

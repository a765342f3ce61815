"""Allowlist: the servers, variables, paths and Celery tasks that teams may use, from the operator's file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from roboco.domain.url import strip_credentials

MAX_BYTES: Final = 64 * 1024
"""Bytes of the file. The environment of a child process has room for as much."""


class Allowlist(BaseModel):
    """The servers, variables and callbacks that teams may use, by key.

    `roboco/docs/settings.md` is generated from the docstrings of the fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    model_servers: tuple[str, ...] = ()
    """Model servers that teams may name, and the variables with keys that these servers may get.

    An entry is `ADDRESS`, `VARIABLE@ADDRESS`, or `VARIABLE` for the server of `OPENAI_BASE_URL`. `OPENAI_BASE_URL`
    with `OPENAI_API_KEY` is always allowed. `ANTHROPIC_API_KEY`, `GOOGLE_API_KEY`, `GEMINI_API_KEY`,
    `MISTRAL_API_KEY`, `GROQ_API_KEY` and `AWS_BEARER_TOKEN_BEDROCK` as entries allow the provider's own server. For
    Bedrock with the worker's AWS credentials, the entry is its address:
    `https://bedrock-runtime.us-east-1.amazonaws.com`. `credential:NAME@ADDRESS` allows that the `api_key` of a profile,
    a credential of the tenant, is sent to the address. Without such an entry it is sent to none.
    """
    mcp_servers: tuple[str, ...] = ()
    """MCP servers that teams may use: whole command lines, and addresses."""
    mcp_env: tuple[str, ...] = ()
    """Names of the worker's variables that MCP servers may get."""
    mcp_paths: tuple[str, ...] = ()
    """Files and folders that confined MCP servers may read; with `:rw` after a path, also write."""
    webhooks: tuple[str, ...] = ()
    """Addresses that webhooks may use, and networks (`10.0.0.0/8`) of private addresses."""
    webhook_env: tuple[str, ...] = ()
    """Names of the variables with secrets that sign webhooks."""
    callbacks: tuple[str, ...] = ()
    """Celery tasks that `notify` may name: `TASK` at the broker's default queue, or `TASK@QUEUE`."""
    tasks: tuple[str, ...] = ()
    """Celery tasks of your application that teams may use as tools: `TASK` in the queue `celery`, or `TASK@QUEUE`."""

    def extended(self, **entries: tuple[str, ...]) -> "Allowlist":
        """Return an allowlist with these entries as well, by key."""
        return self.model_copy(update={key: (*getattr(self, key), *more) for key, more in entries.items()})

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, entries in super().__repr_args__():
            yield name, tuple(map(strip_credentials, entries))


def read_allowlist(value: Any) -> Any:
    """Return the Allowlist of a YAML file's path, or of a JSON object, which child processes get. Pass other values.

    Raise ValueError that names the file, the key and the problem.
    """
    if not isinstance(value, str | Path):
        return value
    text = str(value)
    name = "" if text.startswith("{") else f" of {text!r}"
    try:
        return Allowlist.model_validate(yaml.safe_load(_read(Path(text)) if name else text) or {})
    except ValidationError as error:
        mistakes = "; ".join(_mistake(one["loc"], one["type"], one["msg"]) for one in error.errors())
        raise ValueError(f"{name}: {mistakes}".lstrip()) from None
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"{name}: cannot be read: {' '.join(str(error).split())}".lstrip()) from None


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return content.decode()


def _mistake(place: tuple[int | str, ...], kind: str, message: str) -> str:
    if not place:
        return f"must be a mapping with the keys {_KEYS}"
    key, *entry = place
    if kind == "extra_forbidden":
        return f"{key!r} is no key; keys: {_KEYS}"
    if entry:
        return f"entry {int(entry[0]) + 1} of {key!r} must be a text: put it in quotes"
    return f"{key!r} must be a list of texts"


_KEYS: Final = ", ".join(Allowlist.model_fields)

"""server_error: the errors of a Redis, as the state or as the broker, each with its cause and its remedy.

An error of Redis is temporary unless it is known to be final: servers, their proxies and providers have errors that no
list contains. A temporary error says that Redis cannot be used now, so work waits for it. A final one says that this
command is wrong on every server: it would fail again, so it ends the work that has sent it.
"""

import re
from typing import Any, Final, NamedTuple

import redis
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisClusterException,
    TryAgainError,
)

from roboco.errors import RobocoError, TransientError
from roboco.ports.refusals import MissingRight, RefusedWrites

REDIS_URL_SETTING: Final = "ROBOCO_REDIS_URL"
BROKER_URL_SETTING: Final = "ROBOCO_BROKER_URL (or ROBOCO_REDIS_URL, if that is not set)"
CALLBACK_BROKER_URL_SETTING: Final = "ROBOCO_CALLBACK_BROKER_URL (or ROBOCO_BROKER_URL, if that is not set)"
SERVER_ERRORS: Final = (redis.RedisError, RedisClusterException)
"""The classes of all errors of redis-py."""
_FINAL: Final = re.compile(
    r"\bWRONGTYPE\b|wrong number of arguments|syntax error|is not an integer|is not a valid float"
    r"|\bCROSSSLOT\b|hash to the same slot|Error compiling script"
    r"|user_script:\s?\d+: (?:attempt to |bad argument |stack overflow|Script attempted to access nonexistent)",
    re.IGNORECASE,
)
"""Mistakes of a command or a script, and a key that another application uses with another type."""
_CODES: Final = {
    NoPermissionError: "NOPERM",
    redis.OutOfMemoryError: "OOM",
    redis.ReadOnlyError: "READONLY",
    MasterDownError: "MASTERDOWN",
    redis.BusyLoadingError: "LOADING",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
    MovedError: "MOVED",
    AskError: "ASK",
}
"""The codes that redis-py removes from the texts of these errors."""
_WRITES: Final = re.compile(r"\bOOM\b|\bREADONLY\b|\bUNBLOCKED\b|\bMASTERDOWN\b|\bMISCONF\b|\bNOREPLICAS\b")
"""The codes of a Redis that refuses writes, while it answers reads."""
_PASSWORD_MISSING: Final = re.compile("HELLO must be called|Authentication required|NOAUTH")
_PASSWORD_WRONG: Final = re.compile(
    "invalid username-password|WRONGPASS|invalid password|without any password configured"
)
_URL_SYNTAX: Final = (
    "write redis://:PASSWORD@HOST:PORT/DATABASE, or redis://USER:PASSWORD@HOST:PORT/DATABASE for a user of its ACL, "
    "with each '/', '#', '?', ':', '@' and '%' of the password as %XX"
)
_NO_RIGHT: Final = re.compile(r"\bNOPERM\b|no permissions", re.IGNORECASE)
"""The texts of a missing right: of a command, and of one within a script."""
_PROBLEMS: Final = (
    (
        _NO_RIGHT,
        "redis refuses a right to the user of {setting}",
        "load deploy/redis-users.acl of this release, or name another user: roboco-client may manage dead letters, "
        "and roboco-admin may run every command",
    ),
    (
        re.compile(r"\bOOM\b"),
        "redis refuses writes",
        "raise its `maxmemory`, of which `roboco doctor` shows the use",
    ),
    (
        re.compile(r"\bREADONLY\b|\bUNBLOCKED\b|\bMASTERDOWN\b"),
        "redis refuses writes",
        "it is a replica, for example after a failover: check that {setting} leads to the primary",
    ),
    (re.compile(r"\bMISCONF\b|\bNOREPLICAS\b"), "redis refuses writes", "check its disk and its replicas"),
    (re.compile(r"\bLOADING\b"), "redis does not answer yet", "it loads its data"),
    (
        re.compile(r"\bBUSY\b"),
        "redis runs a long script of another application",
        "wait until it ends, or end it with SCRIPT KILL; if it recurs, use a separate Redis",
    ),
    (
        re.compile(r"\bCLUSTERDOWN\b|\bTRYAGAIN\b|\bMOVED\b|\bASK\b"),
        "the redis cluster does not serve a slot",
        "see CLUSTER INFO and CLUSTER SHARDS",
    ),
    (
        re.compile(r"quota|limit (?:is )?(?:exceeded|reached)|too many requests|max number of", re.IGNORECASE),
        "redis refuses commands",
        "raise this limit of the server, or of its provider",
    ),
    (
        re.compile(r"unknown (?:redis )?(?:sub)?command", re.IGNORECASE),
        "redis lacks a command",
        "use Redis 7.0 or newer, and a proxy or provider that passes all commands on",
    ),
)
"""Errors that operators can act on: a pattern of the text, the problem and the remedy."""


class ServerProblem(NamedTuple):
    """A problem of a Redis, and its remedy."""

    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def is_final(error: BaseException) -> bool:
    """Return True if the command would fail again on any server, so that waiting does not help."""
    if isinstance(error, redis.DataError):
        return True
    return isinstance(error, redis.ResponseError) and _FINAL.search(_text_of(error)) is not None


def is_temporary(error: BaseException) -> bool:
    """Return True if Redis cannot be used now. A script that it lacks is neither temporary nor final."""
    return isinstance(error, SERVER_ERRORS) and not isinstance(error, NoScriptError) and not is_final(error)


def roboco_error(error: redis.RedisError | RedisClusterException) -> RobocoError:
    """Return the error to raise in place of an error of Redis: TransientError if it is temporary."""
    if _NO_RIGHT.search(_text_of(error)):
        return MissingRight(str(explain(error)))
    if is_temporary(error):
        kind = RefusedWrites if _WRITES.search(_text_of(error)) else TransientError
        return kind(str(explain(error)))
    return RobocoError(
        f"redis refuses a command for good: {_text_of(error)}; another application may use keys of this name: give "
        "Roboco another ROBOCO_PREFIX, or a separate database"
    )


def explain(error: BaseException, setting: str = REDIS_URL_SETTING) -> ServerProblem:
    """Return the problem that an error of Redis reports, with its remedy. `setting` names the address of that Redis."""
    if refused := find_refusal(error, setting):
        return refused
    text = _text_of(error)
    for pattern, problem, remedy in _PROBLEMS:
        if pattern.search(text):
            return ServerProblem(f"{problem.format(setting=setting)}: {text}", remedy.format(setting=setting))
    if isinstance(error, redis.ResponseError):
        return ServerProblem(f"redis refuses commands: {text}", f"see the server, proxy or provider of {setting}")
    return ServerProblem(f"redis does not answer: {text}", f"check {setting} and that the server runs")


def write_refusal(client: Any, key: str, setting: str = REDIS_URL_SETTING) -> str:
    """Return why Redis refuses writes to the key, with the remedy, or "". Nothing is written.

    The key must not exist. Raise the error if Redis does not answer. A user without the right finds nothing.
    """
    try:
        client.set(key, "", xx=True, px=1)  # refused like any write; it creates no key
    except redis.ResponseError as error:
        return "" if is_final(error) or isinstance(error, NoPermissionError) else str(explain(error, setting))
    return ""


def find_refusal(error: BaseException, setting: str = REDIS_URL_SETTING) -> ServerProblem | None:
    """Return the refused user or password that an error of Redis reports, or None if the error has another cause.

    Clients of a cluster and kombu wrap such an error, so this reads its text instead of its type.
    """
    text = _text_of(error)
    if _PASSWORD_MISSING.search(text):
        return ServerProblem(f"Redis asks for a password, and {setting} has none", _URL_SYNTAX)
    if _PASSWORD_WRONG.search(text):
        return ServerProblem(f"Redis refuses the user or password in {setting}", f"correct it, and {_URL_SYNTAX}")
    return None


def _text_of(error: BaseException) -> str:
    """Return the server's text with its code, without the command and its arguments, which may be content of users."""
    text = (
        str(error).rpartition(" of pipeline caused error: ")[2].partition(", with args beginning with")[0].rstrip(".")
    )
    code = _CODES.get(type(error), "")
    return text if code in text else f"{code} {text}"

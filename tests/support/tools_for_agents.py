"""Tools of the tests' teams."""

import asyncio
import base64
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from roboco import AgentAnswer, File, ToolContext, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def polite(text: str) -> dict[str, Any]:
    """Pass polite messages: a guard."""
    return {"passed": "rude" not in text, "reason": "it is rude"}


@tool
def slow_add(a: int, b: int, seconds: float, context: ToolContext) -> int:
    """Add two numbers, slowly."""
    _log_call(f"{context.call_id} {context.attempt} {context.idempotency_key}")
    time.sleep(seconds)
    return a + b


@tool
async def triage(context: ToolContext) -> AgentAnswer:
    """Hand over to the clerk."""
    _log_call(f"{context.call_id} {context.attempt} {context.idempotency_key}")
    await asyncio.sleep(0.4)
    return AgentAnswer(f"heard {context.messages[-1]['content']}", handoff="clerk")


@tool
def raise_error(message: str) -> str:
    """Raise an error."""
    raise ValueError(message)


@tool
def print_and_raise(line: str, variable: str) -> str:
    """Print a line and a variable of the environment, and raise an error that contains the variable."""
    print(f"{line} {os.environ[variable]}")
    raise ValueError(f"refused with {os.environ[variable]}")


@tool
def hang(seconds: float, stubborn: bool = False) -> str:
    """Do nothing for some seconds. With `stubborn`, ignore the exception of the time limit."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            time.sleep(0.05)
        except Exception:
            if not stubborn:
                raise
    return "woke up"


@tool
def return_object() -> object:
    """Return an object that is not JSON."""
    return object()


@tool
def append_line(when: str, context: ToolContext) -> str:
    """Append a line, at the moment named by `when`: "early", "late" or "soon"."""
    return _append(when, context)


@tool
def append_soon(context: ToolContext) -> str:
    """Append a line after a quarter of a second, and return after another one."""
    time.sleep(0.25)
    with (_folder() / "lines.txt").open("a") as file:
        file.write(f"{context.call_id}\n")
    time.sleep(0.25)
    return "appended"


def find_line(args: dict[str, Any], key: str) -> str | bool:
    """Return a text if the key has a line, else False."""
    lines = _folder() / "lines.txt"
    return "the line is there" if lines.exists() and key.partition("/")[2] in lines.read_text().split() else False


@tool(verify=find_line)
def append_known_line(when: str, context: ToolContext) -> str:
    """Append a line that `find_line` can find."""
    return _append(when, context)


def _append(when: str, context: ToolContext) -> str:
    """Append first and keep running ("early"), run and append last ("late"), or append and end soon ("soon")."""
    _log_call(f"{context.call_id} {context.attempt}")
    if when == "late":
        _sleep_despite_errors(60)
    with (_folder() / "lines.txt").open("a") as file:
        file.write(f"{context.call_id}\n")
    _sleep_despite_errors(2 if when == "soon" else 60)
    return "appended"


def _sleep_despite_errors(seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(Exception):
            time.sleep(0.05)


@tool
def die() -> str:
    """Kill the process that runs the call."""
    _log_call(f"dies in {os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)
    return "?"


@tool
def large_text(size: int) -> str:
    """Return a large text."""
    return "x" * size


def _log_call(line: str) -> None:
    with (_folder() / "calls.txt").open("a") as file:
        file.write(f"{line}\n")


def _folder() -> Path:
    return Path(os.environ["TEST_FOLDER"])


@tool
def wait_until_cancelled(seconds: float, context: ToolContext) -> str:
    """Wait until the call is cancelled, for at most these seconds."""
    _log_call(f"{context.call_id} begins")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not context.cancelled:
        time.sleep(0.02)
    _log_call(f"{context.call_id} cancelled {context.cancelled}")
    return "cancelled" if context.cancelled else "in vain"


@tool
def return_scope(context: ToolContext) -> dict[str, Any] | None:
    """Return the scope of the user's message."""
    return context.scope


@tool
def spill_credential(context: ToolContext, fails: bool = False) -> str:
    """Print the tenant's credential, note it in the state, and return it or raise it."""
    secret = context.credential("crm")
    print(f"the secret is {secret}")
    context.update_state(noted=secret)
    if fails:
        raise RuntimeError(f"the server refuses {secret}")
    return f"{len(secret)} characters: {secret}"


@tool
def draw(name: str) -> list[Any]:
    """Draw a dot."""
    data = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    return ["a dot", File(name, base64.b64decode(data))]

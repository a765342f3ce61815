"""Tools that the tests' teams use."""

import os
import signal
import time
from pathlib import Path

from roboco import CallContext, tool


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def slow_add(a: int, b: int, seconds: float, context: CallContext) -> int:
    """Add two numbers, slowly."""
    _note(f"{context.call_id} {context.attempt} {context.idempotency_key}")
    time.sleep(seconds)
    return a + b


@tool
def raise_error(message: str) -> str:
    """Raise an error."""
    raise ValueError(message)


@tool
def hang(seconds: float, stubborn: bool = False) -> str:
    """Do nothing for long; a stubborn one swallows what tells it to end."""
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
    """Return what is not JSON."""
    return object()


@tool
def die() -> str:
    """End the process that runs it."""
    _note(f"dies in {os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)
    return "?"


@tool
def large_text(size: int) -> str:
    """Return a large text."""
    return "x" * size


def _note(line: str) -> None:
    with (Path(os.environ["TEST_FOLDER"]) / "calls.txt").open("a") as file:
        file.write(f"{line}\n")

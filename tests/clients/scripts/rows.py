"""Runs rows of a client's script, and prints a line of JSON for each.

It is imported where the client is installed, and needs no other package.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any
from urllib.request import urlopen

HELLO = "helper answers message 1: Hello"
LONG_TEXT = "".join(f"word {number}, " for number in range(60))
PLACE = {"city": "Bonn", "degrees": 21}
"""The answer to a prompt with "as JSON"."""
STOP = {"X-Roboco-On-Disconnect": "stop"}


def expect(found: object, expected: object) -> None:
    """Raise AssertionError if they differ."""
    if found != expected:
        raise AssertionError(f"{found!r:.300} is not {expected!r:.100}")


def expect_pieces(pieces: Iterable[str | None], whole: str = LONG_TEXT) -> None:
    """Raise AssertionError if the pieces are not this text, in several pieces."""
    found = [piece for piece in pieces if piece]
    expect("".join(found), whole)
    if len(found) < 2:
        raise AssertionError("the text arrived in one piece")


def endless(name: str) -> str:
    """Return a prompt whose answer does not end for minutes. The runner finds its task by the name."""
    return f"endless for {name}."


def hundred(name: str) -> list[str]:
    """Return the prompts of a hundred tasks at once. The runner finds the tasks by the name."""
    return [f"one of a hundred for {name}: {number}." for number in range(100)]


def answer_to(prompt: str) -> str:
    """Return the answer to a prompt."""
    return f"helper answers message 1: {prompt}"


def kill_worker() -> None:
    """Let the runner kill the worker, once each client has begun."""
    with urlopen(os.environ["KILL"], timeout=120):
        pass


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"sun in {city}"


WEATHER = "The result is sun in Bonn."
FUNCTION: dict[str, Any] = {
    "name": "weather",
    "description": "Return the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}


def drive(rows: dict[str, Callable[[], None]]) -> None:
    """Run the rows that the arguments name, and print an outcome for each.

    It is "ok", "-" if the client has no such feature, or the error.
    """
    for name in sys.argv[1:]:
        began, outcome = time.monotonic(), "ok"
        if name not in rows:
            outcome = "-"
        else:
            try:
                rows[name]()
            except Exception as error:
                outcome = f"{type(error).__name__}: {error}".splitlines()[0][:500]
        print(json.dumps({"row": name, "outcome": outcome, "seconds": round(time.monotonic() - began, 1)}), flush=True)

"""Steps for the tests of the domain, and strategies that draw histories as Roboco writes them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from hypothesis import strategies as st

from roboco.domain.history.state import History, fold
from roboco.domain.history.step import TaskStep
from roboco.domain.ids import call_id_at, step_id_at

TASK = "t1"
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

Line = tuple[str, Any] | tuple[str, Any, dict[str, Any]]
"""The short form of a step: author, text or parts, and optional metadata."""


def text(content: str) -> dict[str, Any]:
    """Return a text part."""
    return {"type": "text", "text": content}


def call(call_id: str, name: str = "add", args: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a tool call part."""
    return {"type": "tool_call", "tool_call": {"id": call_id, "tool_name": name, "args": args or {}}}


def result(call_id: str, value: Any = None, error: str | None = None) -> dict[str, Any]:
    """Return a tool result part."""
    record = {"tool_call_id": call_id, "result": value, "is_error": error is not None, "error": error}
    return {"type": "tool_result", "tool_result": record}


def artifact(name: str) -> dict[str, Any]:
    """Return an artifact part."""
    record = {"artifact_id": name, "uri": f"file://artifacts/{name}", "mime_type": "text/plain"}
    return {"type": "artifact", "artifact": record}


def failed(code: str, message: str = "why") -> dict[str, Any]:
    """Return an error part."""
    return {"type": "error", "code": code, "message": message}


def steps_of(*lines: Line) -> list[TaskStep]:
    """Return sealed steps, each chained to the one before."""
    steps: list[TaskStep] = []
    for seq, line in enumerate(lines):
        author, parts = line[0], line[1]
        step = TaskStep.model_validate(
            {
                "step_id": step_id_at(TASK, seq),
                "seq": seq,
                "agent_name": author,
                "parts": [text(parts)] if isinstance(parts, str) else parts,
                "created_at": START + timedelta(seconds=seq),
                "metadata": line[2] if len(line) == 3 else {},
            }
        )
        steps.append(step.sealed(steps[-1].digest if steps else ""))
    return steps


def history_of(steps: Iterable[TaskStep], tail: int = 64) -> History:
    """Return the history that a router receives for these steps."""
    known = list(steps)
    return History(fold(known), tuple(known[-tail:]))


def routed(to: str, rule: str = "next") -> dict[str, Any]:
    """Return the metadata of a step that a route started."""
    return {"routing": {"to": to, "router": "graph", "rule": rule, "reason": "", "candidates": []}}


def histories(agents: tuple[str, ...] = ("one", "two"), closed: bool = True) -> st.SearchStrategy[list[TaskStep]]:
    """Return a strategy of valid histories: each step with calls is followed by the results of exactly these calls.

    If `closed` is false, the last step may have calls without results.
    """
    visit = st.tuples(st.sampled_from(("user", *agents)), st.integers(0, 3), st.integers(0, 10_000))
    return st.builds(_history, st.lists(visit, max_size=12), st.just(closed))


def _history(visits: list[tuple[str, int, int]], closed: bool) -> list[TaskStep]:
    lines: list[Line] = [("user", "go")]
    for author, calls, seed in visits:
        pick = Random(seed)
        ids = [call_id_at(TASK, len(lines), index, "add", {}) for index in range(calls if author != "user" else 0)]
        content = pick.choice(TEXTS)
        parts = [text(content)] if content or not ids else []
        lines.append((author, [*parts, *(call(one, args={"a": content}) for one in ids)], _metadata(pick)))
        if ids:
            lines.append(("tool_executor", [part for one in ids for part in _answer(pick, one)]))
    if not closed and lines[-1][0] == "tool_executor":
        lines.pop()
    return steps_of(*lines)


def _answer(pick: Random, call_id: str) -> list[dict[str, Any]]:
    match pick.randrange(3):
        case 0:
            return [result(call_id, error=pick.choice(TEXTS))]
        case 1:
            return [result(call_id, pick.choice(VALUES)), artifact("a.txt")]
        case _:
            return [result(call_id, pick.choice(VALUES))]


def _metadata(pick: Random) -> dict[str, Any]:
    possible = {
        "usage": {"tokens_in": pick.randrange(50), "tokens_out": pick.randrange(50)},
        "routing": {"rule": pick.choice(["next", "results", "one[0] -> two"])},
        "item_id": pick.choice("abcdef"),
        "attempt": pick.randrange(1, 4),
    }
    return {key: value for key, value in possible.items() if pick.random() < 0.5}


TEXTS = ["", "hello", "Gr\u00fc\u00dfe, \u4e16\u754c \U0001f600", '\u2028\n\t\x00"\\\\', "word " * 100]
VALUES: list[Any] = [None, True, 0, -1.5, 1e22, "", "text", [], {}, {"b": [1, {"a": None}], "a": "\u00fc"}, "x" * 500]
JSON: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(VALUES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc\u00fc"), inner, max_size=3),
    max_leaves=6,
)
"""Small JSON values."""

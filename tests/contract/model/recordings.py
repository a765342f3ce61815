"""Recorded traffic of real model servers, and what a reader must get from it, computed without Roboco's own reader.

The recordings are beside the checkout, not in the repository: tests that need them are skipped without them.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[4] / "shared" / "wire"


@dataclass(frozen=True)
class Recording:
    """One recorded exchange."""

    path: Path
    status: int
    request: dict[str, Any] | None
    body: bytes

    @classmethod
    def read(cls, path: Path) -> "Recording":
        """Return the recording in this file."""
        data = json.loads(path.read_text())
        return cls(path, data.get("status") or 200, data.get("request"), data["response"].encode())

    def chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the JSON of each event."""
        for line in self.body.decode().replace("\r\n", "\n").split("\n"):
            text = line.partition(":")[2].strip() if line.startswith(("data:", "error:")) else ""
            if text and text != "[DONE]":
                yield json.loads(text)

    @property
    def has_error(self) -> bool:
        """True if the stream holds an error."""
        return any(chunk.get("error") for chunk in self.chunks())

    def expected(self) -> dict[str, Any]:
        """Return text, reasoning, calls, finish reason and usage, by the rules of the recordings' README."""
        text, reasoning, calls = "", "", _Calls()
        finish: str | None = None
        usage: dict[str, Any] = {}
        for chunk in self.chunks():
            usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage") or usage
            for choice in chunk.get("choices", ())[:1]:
                usage = choice.get("usage") or usage
                finish = choice.get("finish_reason") or finish
                delta = choice.get("delta") or {}
                more, thought = _content(delta.get("content"))
                text += more
                reasoning += thought or delta.get("reasoning_content") or delta.get("reasoning") or ""
                for call in delta.get("tool_calls") or ():
                    calls.add(call)
        return {"text": text, "reasoning": reasoning, "calls": calls.all, "finish": finish, "usage": usage}


def recordings(kind: str) -> list[Recording]:
    """Return the recordings of a kind, such as "chat"; none if there is no such folder."""
    return [Recording.read(path) for path in sorted((FOLDER / kind).glob("*.json"))]


class _Calls:
    """Tool calls: a new index, or a new id at the same index, begins one."""

    def __init__(self) -> None:
        self.all: list[tuple[str, str]] = []
        self._places: dict[Any, tuple[str | None, int]] = {}

    def add(self, fragment: dict[str, Any]) -> None:
        function = fragment.get("function") or {}
        index, call_id = fragment.get("index"), fragment.get("id") or None
        known = self._places.get(index)
        if known is None or (call_id is not None and known[0] is not None and call_id != known[0]):
            self.all.append(("", ""))
            known = self._places[index] = (call_id, len(self.all) - 1)
        name, arguments = self.all[known[1]]
        self.all[known[1]] = (name + (function.get("name") or ""), arguments + (function.get("arguments") or ""))


def _content(content: Any) -> tuple[str, str]:
    if not isinstance(content, list):
        return content or "", ""
    text = "".join(part["text"] for part in content if part.get("type") == "text")
    thoughts = [piece["text"] for part in content if part.get("type") == "thinking" for piece in part["thinking"]]
    return text, "".join(thoughts)

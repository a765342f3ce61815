"""A simple ranking of steps for `memory_search`: rare words of the query count most."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

from roboco.domain.canonical import canonical
from roboco.domain.step import TaskStep

_WORD = re.compile(r"[\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]|[^\W\u3400-\u9fff\u3040-\u30ff\uac00-\ud7af]+")
SNIPPET = 240


@dataclass(frozen=True)
class Found:
    """A step that matches, with a snippet around the first word that does."""

    step_id: str
    seq: int
    agent_name: str
    score: float
    snippet: str

    def record(self) -> dict[str, Any]:
        """The hit as a tool result."""
        return {
            "step_id": self.step_id,
            "seq": self.seq,
            "agent_name": self.agent_name,
            "score": round(self.score, 3),
            "snippet": self.snippet,
        }


def search(steps: Iterable[TaskStep], query: str, limit: int) -> list[Found]:
    """The best `limit` steps for the query's words, best first; among equals the newest first."""
    words = set(_words(query))
    texts = [(step, _text(step)) for step in steps]
    counted = [(step, text, Counter(_words(text))) for step, text in texts]
    documents = len(counted)
    frequency = {word: sum(1 for _, _, counts in counted if word in counts) for word in words}
    weight = {word: math.log(1 + documents / count) for word, count in frequency.items() if count}
    hits = [
        Found(step.step_id, step.seq, step.agent_name, score, _snippet(text, words))
        for step, text, counts in counted
        if (score := sum(weight[word] * (1 + math.log(counts[word])) for word in weight if counts[word])) > 0
    ]
    return nlargest(limit, hits, key=lambda hit: (hit.score, hit.seq))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _text(step: TaskStep) -> str:
    calls = [f"{call.tool_name} {canonical(call.args)}" for call in step.calls]
    results = [f"{canonical(result.result)} {result.error or ''}" for result in step.results]
    artifacts = [artifact.uri for artifact in step.artifacts]
    return "\n".join([step.text, *calls, *results, *artifacts])


def _snippet(text: str, words: set[str]) -> str:
    match = next((found for found in _WORD.finditer(text) if found.group().casefold() in words), None)
    start = max(0, (match.start() if match else 0) - SNIPPET // 3)
    return text[start : start + SNIPPET].strip()

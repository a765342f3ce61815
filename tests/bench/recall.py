"""recall: how many facts of a history `memory_search` finds among its first hits, by words alone and by meaning.

`python -m tests.bench.recall` prints a line for each set of questions of `recall_facts.yaml`, and the time of a search.
The search was developed with the half `seen`; the half `unseen` was only measured.
"""

import importlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from roboco.tools.search import memory_index
from roboco.tools.search.memory_index import Embedder, MemoryIndex
from tests.support.memory_ports.workspace import MemoryHistories
from tests.unit.domain.steps import steps_of

FIRST, STEPS, LONG_STEPS = 5, 260, 10_000
FACTS = Path(__file__).with_name("recall_facts.yaml")
EXACT = ("exact_words", "word_forms")


def main() -> None:
    """Print the recall and the times."""
    facts = yaml.safe_load(FACTS.read_text())
    for name, embedder in _embedders():
        for half in ("seen", "unseen"):
            print(f"{name}, {half}: {', '.join(_recall(facts, half, embedder))}")
        print(f"{name}: {_times(facts, embedder)}", flush=True)


def _embedders() -> Iterator[tuple[str, Embedder | None]]:
    yield "words alone", None
    yield "the model of roboco[memory]", importlib.import_module("roboco.tools.search.bundled_model").BundledModel()


def _recall(facts: Any, half: str, embedder: Embedder | None) -> Iterator[str]:
    questions = {**facts[half], **{name: facts[name] for name in EXACT}}
    texts = [text for pairs in questions.values() for text, _ in pairs]
    texts += _talk(facts, STEPS - len(texts))
    random.Random(7).shuffle(texts)
    with tempfile.TemporaryDirectory() as folder:
        index = _index(texts, Path(folder), embedder)
        for name, pairs in questions.items():
            missed = [ask for text, ask in pairs if text not in [texts[seq] for seq in _found(index, ask)]]
            yield f"{name} {len(pairs) - len(missed)} of {len(pairs)}"
            if "--missed" in sys.argv:
                print(*missed, sep="\n")


def _talk(facts: Any, count: int) -> list[str]:
    talk = [line.format(word) for line, *words in facts["talk"] for word in words]
    random.Random(7).shuffle(talk)
    return (talk * (count // len(talk) + 1))[:count]


def _index(texts: Sequence[str], folder: Path, embedder: Embedder | None) -> MemoryIndex:
    histories = MemoryHistories()
    for step in steps_of(*(("one", text) for text in texts)):
        histories.append("t1", step)
    return MemoryIndex(histories, lambda *_: None, folder, embedder)


def _found(index: MemoryIndex, question: str) -> list[int]:
    return [hit.seq for hit in index.search("t1", question, FIRST).hits]


def _times(facts: Any, embedder: Embedder | None) -> str:
    asked = [ask for pairs in facts["seen"].values() for _, ask in pairs]
    texts = [f"{text} ({number})" for number, text in enumerate(_talk(facts, LONG_STEPS))]
    memory_index.EMBEDDING_SECONDS = float("inf")
    with tempfile.TemporaryDirectory() as folder:
        index = _index(texts, Path(folder), embedder)
        first = _milliseconds(index, asked[0])
        later = [_milliseconds(index, ask) for ask in asked[1:]]
    middle = [statistics.median(one) for one in zip(*later, strict=True)]
    return (
        f"{LONG_STEPS:,} steps, first search {first[0] / 1000:.1f} s ({first[1] / 1000:.1f} s CPU), later ones "
        f"{middle[0]:.1f} ms ({middle[1]:.1f} ms CPU)"
    )


def _milliseconds(index: MemoryIndex, question: str) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    _found(index, question)
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


if __name__ == "__main__":
    main()

"""recall: how many facts of a history `memory_search` finds among its first hits, by words alone and by meaning.

`python -m tests.bench.recall` prints a line for each set of questions of `recall_facts.yaml`, and the time of a search.
The search was developed with `seen` and `more`; `unseen` and `fresh` were only measured. With `MODEL@http://HOST/v1` it
measures the model of a server with OpenAI's embeddings protocol.
"""

import importlib
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
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
    memory_index.EMBEDDING_SECONDS = float("inf")
    facts = yaml.safe_load(FACTS.read_text())
    for name, embedder in _embedders():
        for part in ("seen", "more", "unseen", "fresh"):
            print(f"{name}, {part}: {', '.join(_recall(facts, part, embedder))}", flush=True)
        print(f"{name}: {_times(facts, embedder)}", flush=True)


def _embedders() -> Iterator[tuple[str, Embedder | None]]:
    for model, _, address in (one.partition("@") for one in sys.argv[1:] if "@" in one):
        yield (
            model,
            importlib.import_module("roboco.tools.search.embeddings").OpenAIEmbedder(model, address, timeout=600),
        )
        return
    yield "words alone", None
    yield "the model of roboco[memory]", importlib.import_module("roboco.tools.search.bundled_model").BundledModel()


def _recall(facts: Any, part: str, embedder: Embedder | None) -> Iterator[str]:
    questions = {**facts[part], **{name: facts[name] for name in EXACT}}
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
    """Return the time of the first search, and the median of the later ones, each the best of five questions.

    They differ by a number: a process keeps the vectors of texts that it has met.
    """
    asked = [ask for pairs in facts["seen"].values() for _, ask in pairs]

    def search(ask: str, number: int) -> object:
        return _found(index, f"{ask} ({number})")

    def embed(ask: str, number: int) -> object:
        assert embedder is not None
        return embedder.query(f"{ask} [{number}]")

    texts = [f"{text} ({number})" for number, text in enumerate(_talk(facts, LONG_STEPS))]
    with tempfile.TemporaryDirectory() as folder:
        index = _index(texts, Path(folder), embedder)
        first = _milliseconds(partial(search, asked[0]), 1)
        later = _median([_milliseconds(partial(search, ask)) for ask in asked])
    query = _median([_milliseconds(partial(embed, ask)) for ask in asked]) if embedder else (0, 0)
    return (
        f"{LONG_STEPS:,} steps, first search {first[0] / 1000:.1f} s ({first[1] / 1000:.1f} s CPU), later ones "
        f"{later[0]:.1f} ms ({later[1]:.1f} ms CPU), of which the query's vector {query[0]:.1f} ms ({query[1]:.1f} ms)"
    )


def _milliseconds(run: Callable[[int], object], times: int = 5) -> tuple[float, float]:
    """Return the shortest time, and the shortest processor time."""
    taken = []
    for number in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        run(number)
        taken.append(((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
    return min(wall for wall, _ in taken), min(cpu for _, cpu in taken)


def _median(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(wall for wall, _ in times), statistics.median(cpu for _, cpu in times)


if __name__ == "__main__":
    main()

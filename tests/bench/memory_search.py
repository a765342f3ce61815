"""memory_search: a search over a long history with its index, against a scan of the whole history.

The history is in three languages, with natural word frequencies. Each round creates a new index in a new process, which
has not stemmed a word yet. Another process finds this index. Each search "after a new step" follows an appended step.
"""

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TypeVar
from uuid import uuid4

from roboco.domain.history.step import TaskStep
from roboco.tools.search.memory_index import MemoryIndex
from roboco.workspace.open import open_workspace
from tests.bench.harness.bench_stack import BenchStack, Size
from tests.bench.harness.results import Measurement, Result, ratio

T = TypeVar("T")
TASK_ID, STEPS, VOCABULARY_SIZE, MEAN_WORDS, QUERIES = "bench-memory", 10_000, 12_000, 60, 20
SYLLABLES = {
    "en": "con per ing tion ed ly un re ex ple ment able str ight ow er al in ous ack ent ish ter for",
    "de": "ver ge ung keit schaft ig lich be zu haus trag stra ße prü fen ä ck ei sch ten auf nis müh rün",
}
FUNCTION_WORDS = {
    "en": "the of and to a in is that for with on this are be it by not from or which",
    "de": "der und die in das den von zu mit dem des ist nicht ein eine auf für im sich auch",
}


class Prose:
    """Random texts that resemble English, German and Chinese: few words are frequent and many are rare (Zipf)."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        words = Random(1)
        self._words = {
            language: FUNCTION_WORDS[language].split()
            + sorted({"".join(words.choices(syllables.split(), k=words.randint(1, 4))) for _ in range(VOCABULARY_SIZE)})
            for language, syllables in SYLLABLES.items()
        }
        self._words["zh"] = [
            "".join(chr(0x4E00 + words.randrange(3000)) for _ in range(2)) for _ in range(VOCABULARY_SIZE)
        ]
        self._weights = {
            language: list(accumulate(1 / rank for rank in range(1, len(known) + 1)))
            for language, known in self._words.items()
        }

    def text(self, language: str, length: int) -> str:
        """Return a text with this number of words."""
        words = self._random.choices(self._words[language], cum_weights=self._weights[language], k=length)
        return ("" if language == "zh" else " ").join(words)

    def step(self, seq: int, prev_digest: str) -> TaskStep:
        """Return a step at this position. The languages alternate, and few steps are long."""
        language = ("en", "de", "zh")[seq % 3]
        length = min(1200, 1 + int(self._random.expovariate(1 / MEAN_WORDS)))
        step = {
            "step_id": f"step_{seq:032x}",
            "seq": seq,
            "agent_name": ("user", "one", "two")[seq % 3],
            "parts": [{"type": "text", "text": self.text(language, length)}],
            "created_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seq),
            "metadata": {"model": "some", "usage": {"tokens_in": 1000, "tokens_out": length}},
        }
        return TaskStep.model_validate(step).sealed(prev_digest)

    def queries(self) -> list[str]:
        """Return queries of three words each; the languages alternate."""
        return [self.text(("en", "de", "zh")[number % 3], 3) for number in range(QUERIES)]


class Searches:
    """Timed searches and scans of the history in one workspace."""

    def __init__(self, workspace: str, folder: Path) -> None:
        self._workspace = open_workspace(workspace)
        self._folder = folder

    def time_searches(self, name: str, grow: bool = False) -> list[float]:
        """Return the seconds of each query on the index of this name; with `grow`, each after a new step."""
        index = MemoryIndex(self._workspace.histories, lambda *_: None, self._folder / name)
        prose = Prose(2)
        times = []
        for query in prose.queries():
            if grow:
                last = list(self._workspace.histories.read(TASK_ID, self._count() - 1))[-1]
                self._workspace.histories.append(TASK_ID, prose.step(last.seq + 1, last.digest))
            began = time.perf_counter()
            index.search(TASK_ID, query, 5)
            times.append(time.perf_counter() - began)
        return times

    def _count(self) -> int:
        return sum(1 for _ in self._workspace.histories.lines(TASK_ID))

    def time_scans(self) -> list[float]:
        """Return the seconds of each scan: read the whole history and find a query's words in each step."""
        times = []
        for query in Prose(2).queries()[:3]:
            began = time.perf_counter()
            words = query.split()
            sum(any(word in step.text for word in words) for step in self._workspace.histories.read(TASK_ID))
            times.append(time.perf_counter() - began)
        return times


def measure_round(workspace: str, folder: Path, name: str) -> tuple[float, list[float], list[float], list[float]]:
    """Return the times of the first search, of the next ones, of those after a new step, and of scans."""
    searches = Searches(workspace, folder)
    first, *others = searches.time_searches(name)
    return first, others, searches.time_searches(name, grow=True), searches.time_scans()


def time_existing_index(workspace: str, folder: Path, name: str) -> float:
    """Return the time of the first search on an index that another process created."""
    return Searches(workspace, folder).time_searches(name)[0]


def measure(stack: BenchStack, size: Size) -> Iterator[Result]:
    """Measure searches with one new index in each round."""
    yield measure_in(stack.folder / "memory-search", size)


def measure_in(folder: Path, size: Size) -> Result:
    """Write the history to this folder, search it, and return the result."""
    workspace, steps = f"file://{folder}/workspace", size.of(STEPS, 10)
    _write_history(workspace, steps)
    rounds, elsewhere = [], []
    for number in range(size.rounds + 1):
        name = f"{number}-{uuid4().hex}"
        made = _in_new_process(measure_round, workspace, folder, name)
        found = _in_new_process(time_existing_index, workspace, folder, name)
        if number:
            rounds.append(made)
            elsewhere.append((found,))
    later = Measurement("later searches", tuple(tuple(one[1]) for one in rounds))
    scan = Measurement("scan of the history", tuple(tuple(one[3]) for one in rounds))
    first = Measurement("first search, makes the index", tuple((one[0],) for one in rounds))
    measurements = (
        later,
        first,
        Measurement("search after a new step", tuple(tuple(one[2]) for one in rounds)),
        Measurement("first search of another process", tuple(elsewhere)),
        scan,
    )
    return Result(f"memory_search, {steps} steps", measurements, (ratio(later, scan), ratio(first, scan)))


def _in_new_process(function: Callable[[str, Path, str], T], workspace: str, folder: Path, name: str) -> T:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, workspace, folder, name).result()


def _write_history(workspace: str, steps: int) -> None:
    prose, digest, lines = Prose(1), "", []
    for seq in range(steps):
        step = prose.step(seq, digest)
        digest = step.digest
        lines.append(step.line().encode())
    if not open_workspace(workspace).histories.create(TASK_ID, lines):
        sys.exit(f"{workspace} holds another history already")

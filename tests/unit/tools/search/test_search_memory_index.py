"""MemoryIndex: every part of a history and its artifacts is found, as if the whole was indexed in one pass."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboco.domain.history.step import TaskStep
from roboco.domain.paths import artifacts_path
from roboco.tools.search.memory_index import MemoryIndex
from roboco.tools.search.passage import MAX_INDEXED_BYTES, MAX_PASSAGE_CHARS
from roboco.tools.search.result import SearchFilters, SearchHit
from tests.support.memory_ports.workspace import MemoryHistories
from tests.unit.domain.steps import START, Line, artifact, call, failed, histories, result, steps_of, text

TASK = "t1"
LINES: tuple[Line, ...] = (
    ("user", "Write about the sea and the Zürich harbour"),
    ("one", [text("the sea the sea"), call("1", "web_search", {"query": "lighthouse", "lines": "a\nnewline"})]),
    ("tool_executor", [result("1", {"title": "Tides"}), artifact("chart.png")]),
    ("two", "the 世界 harbour of the sea"),
    ("tool_executor", [result("2", error="timeout while dredging")]),
    ("orchestrator", [failed("limit", "never said")]),
)


class RecordingHistories(MemoryHistories):
    """Histories that record which steps were read."""

    def __init__(self, steps: list[TaskStep] | None = None) -> None:
        super().__init__()
        self.steps_read: list[int] = []
        self.add(steps or [])

    def add(self, steps: list[TaskStep]) -> None:
        for step in steps:
            self.append(TASK, step)

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        for step in super().read(task_id, start):
            self.steps_read.append(step.seq)
            yield step


class RecordingArtifacts:
    """Artifacts by name that record which were read."""

    def __init__(self, **held: bytes) -> None:
        self.held = held
        self.read: list[str] = []

    def __call__(self, path: str, start: int, length: int) -> bytes | None:
        name = path.removeprefix(artifacts_path(TASK))
        self.read.append(name)
        data = self.held.get(name.replace(".", "_"))
        return None if data is None else data[start : start + length]


SearchFunction = Callable[..., list[SearchHit]]


def search_over(folder: Path, steps: list[TaskStep], texts: RecordingArtifacts | None = None) -> SearchFunction:
    """Return a search over the steps."""
    index = MemoryIndex(RecordingHistories(steps), texts or RecordingArtifacts(), folder)
    return lambda query, limit=10, **filters: list(index.search(TASK, query, limit, SearchFilters(**filters)).hits)


@pytest.fixture
def search(tmp_path: Path) -> SearchFunction:
    return search_over(tmp_path, steps_of(*LINES))


def seqs(hits: list[SearchHit]) -> list[int]:
    return [hit.seq for hit in hits]


@pytest.mark.parametrize(
    ("query", "seq"),
    [("zürich", 0), ("LIGHTHOUSE", 1), ("web_search", 1), ("newline", 1), ("tides", 2), ("chart", 2), ("世", 3)],
)
def test_every_part_of_a_step_is_found(search: SearchFunction, query: str, seq: int) -> None:
    assert seqs(search(query)) == [seq]


def test_searches_and_their_hits_are_not_found(tmp_path: Path) -> None:
    hit = search_over(tmp_path, steps_of(*LINES))("lighthouse")[0].to_result()
    searched: list[Line] = [("one", [call("3", "memory_search", {"query": "lighthouse"})])]
    for answer in ([hit], {"hits": [hit], "note": "ranked by words alone"}):
        steps = steps_of(*LINES, *searched, ("tool_executor", [result("3", answer)]))
        assert seqs(search_over(tmp_path, steps)("lighthouse")) == [1]


@pytest.mark.parametrize(
    "query",
    [
        "spelled: sea",
        "-sea",
        "sea)))",
        "sea AND",
        "sea*",
        "sea\0; DROP TABLE passages",
        "sea \ud83d",
    ],
)
def test_search_syntax_in_a_query_has_no_effect(search: SearchFunction, query: str) -> None:
    assert {0, 1, 3} <= set(seqs(search(query)))


@given(st.text(st.characters(exclude_categories=()), max_size=50))
def test_any_query_returns_a_limited_number_of_hits(tmp_path_factory: pytest.TempPathFactory, query: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-query"
    assert len(search_over(folder, steps_of(*LINES))(query, 3)) <= 3


def test_a_hit_names_its_step_and_part(search: SearchFunction) -> None:
    [hit] = search("lighthouse")
    step = steps_of(*LINES)[1]
    assert hit.to_result() == {
        "step_id": step.step_id,
        "seq": 1,
        "agent_name": "one",
        "part": "tool_call",
        "score": round(hit.score, 4),
        "snippet": "web_search lines: a\nnewline\nquery: lighthouse",
        "created_at": (START + timedelta(seconds=1)).isoformat().replace("+00:00", "Z"),
    }


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"agent": "two"}, [3]),
        ({"part": "text", "agent": "one"}, [1]),
        ({"after": START + timedelta(seconds=1)}, [1, 3]),
        ({"after": (START + timedelta(seconds=3)).replace(tzinfo=None)}, [3]),
        ({"after": START + timedelta(seconds=1), "before": START + timedelta(seconds=3)}, [1]),
        ({"agent": "x' OR '1'='1"}, []),
    ],
)
def test_filters_narrow_a_search(search: SearchFunction, filters: dict[str, Any], found: list[int]) -> None:
    assert sorted(seqs(search("sea", **filters))) == found


def test_a_long_result_is_found_by_the_text_of_its_artifact(tmp_path: Path) -> None:
    content = "filler line\n" * 3000 + "the Überweisung went to account 4711\n" + "filler line\n" * 3000
    steps = steps_of(("user", "go"), ("tool_executor", [result("1", "filler [...]"), artifact("result.txt")]))
    [hit] = search_over(tmp_path, steps, RecordingArtifacts(result_txt=content.encode()))("überweisung 4711")
    assert (hit.artifact, hit.seq, hit.part) == ("file://artifacts/result.txt", 1, "artifact")
    assert "Überweisung went to account 4711" in hit.snippet
    assert hit.offset is not None
    assert content[hit.offset :].startswith(hit.snippet)


def test_hits_in_one_artifact_are_few_and_do_not_overlap(tmp_path: Path) -> None:
    content = " ".join(f"needle {number}" for number in range(4_000))
    steps = steps_of(("one", [artifact("big.txt")]), ("one", "needle"))
    hits = search_over(tmp_path, steps, RecordingArtifacts(big_txt=content.encode()))("needle", 10)
    offsets = sorted(hit.offset for hit in hits if hit.offset is not None)
    assert len(hits) == 4
    assert all(later - earlier > MAX_PASSAGE_CHARS for earlier, later in pairwise(offsets))


def test_a_missing_or_binary_artifact_is_found_by_its_name_alone(tmp_path: Path) -> None:
    picture = artifact("sunset.png")
    picture["artifact"]["mime_type"] = "image/png"
    strange = artifact("x.txt")
    strange["artifact"]["uri"] = "file://elsewhere/../secret.txt"
    texts = RecordingArtifacts(sunset_png=b"needle", secret_txt=b"needle")
    find = search_over(tmp_path, steps_of(("one", [picture, artifact("gone.txt"), strange])), texts)
    assert [hit.artifact for hit in find("sunset")] == ["file://artifacts/sunset.png"]
    assert find("gone.txt")[0].artifact == "file://artifacts/gone.txt"
    assert find("needle") == []
    assert texts.read == ["gone.txt"]


def test_an_artifact_is_indexed_once_and_up_to_a_limit(tmp_path: Path) -> None:
    texts = RecordingArtifacts(a_txt=b"\xff " + b"x" * (MAX_INDEXED_BYTES - 2) + b" needle")
    find = search_over(tmp_path, steps_of(("one", [artifact("a.txt")]), ("two", [artifact("a.txt")])), texts)
    assert find("needle") == []
    assert find("x" * 100)
    assert texts.read == ["a.txt"]


@pytest.mark.parametrize(
    "other",
    [
        steps_of(("user", "other"), ("one", "harbour")),
        steps_of(("user", "other"), *LINES),
        steps_of(("user", "other"), *LINES[1:]),
        [],
    ],
    ids=["shorter", "longer", "as long", "gone"],
)
def test_an_index_of_another_history_is_rebuilt(tmp_path: Path, other: list[TaskStep]) -> None:
    assert search_over(tmp_path, steps_of(*LINES))("zürich")
    rebuilt = search_over(tmp_path, other)
    assert [rebuilt(query) for query in ("zürich", "harbour", "sea")] == [
        search_over(tmp_path / "fresh", other)(query) for query in ("zürich", "harbour", "sea")
    ]


@settings(max_examples=25)
@given(
    histories(), st.lists(st.integers(0, 30), max_size=4), st.sampled_from(["hello", "word", "世界", "grüße a", "text"])
)
def test_an_incremental_index_finds_the_same_as_a_new_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[TaskStep], cuts: list[int], query: str
) -> None:
    folder, texts = tmp_path_factory.mktemp("grown"), RecordingArtifacts(a_txt="hello 世界".encode())
    recorded = RecordingHistories()
    grown = MemoryIndex(recorded, texts, folder / "grown")
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(steps)], strict=True):
        recorded.add(steps[start:end])
        grown.search(TASK, "anything", 1)
    at_once = MemoryIndex(recorded, texts, folder / "at-once")
    assert _rounded_hits(grown, query) == _rounded_hits(at_once, query)


def _rounded_hits(index: MemoryIndex, query: str) -> list[SearchHit]:
    """Return the hits. Their rounded scores do not depend on the order in which numbers were added."""
    return [replace(hit, score=round(hit.score, 9)) for hit in index.search(TASK, query, 10).hits]

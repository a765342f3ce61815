"""MemoryIndex: finds everything of a history and its texts, as if it had been indexed at once."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.adapters.search import indexer
from roboco.adapters.search.memory_index import MemoryIndex
from roboco.adapters.search.passage import MAX_INDEXED_BYTES, MAX_PASSAGE_CHARS, is_text
from roboco.adapters.search.result import SearchFilters, SearchHit
from roboco.domain.history.step import TaskStep
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


class Watched(MemoryHistories):
    """Histories that note from where they are read, and how many steps are taken."""

    def __init__(self, steps: list[TaskStep] | None = None) -> None:
        super().__init__()
        self.taken: list[int] = []
        self.add(steps or [])

    def add(self, steps: list[TaskStep]) -> None:
        for step in steps:
            self.append(TASK, step)

    def read(self, task_id: str, start: int = 0) -> Iterator[TaskStep]:
        for step in super().read(task_id, start):
            self.taken.append(step.seq)
            yield step


class Texts:
    """Artifacts by name, and which were read."""

    def __init__(self, **held: bytes) -> None:
        self.held = held
        self.read: list[str] = []

    def __call__(self, task_id: str, name: str, most: int) -> bytes | None:
        self.read.append(name)
        data = self.held.get(name.replace(".", "_"))
        return None if data is None else data[:most]


Search = Callable[..., list[SearchHit]]


def searching(folder: Path, steps: list[TaskStep], texts: Texts | None = None) -> Search:
    """A search over the steps."""
    index = MemoryIndex(Watched(steps), texts or Texts(), folder)
    return lambda query, limit=10, **filters: list(index.search(TASK, query, limit, SearchFilters(**filters)).hits)


@pytest.fixture
def search(tmp_path: Path) -> Search:
    return searching(tmp_path, steps_of(*LINES))


def seqs(hits: list[SearchHit]) -> list[int]:
    return [hit.seq for hit in hits]


@pytest.mark.parametrize(
    ("query", "seq"),
    [("zürich", 0), ("LIGHTHOUSE", 1), ("web_search", 1), ("newline", 1), ("tides", 2), ("chart", 2), ("世", 3)],
)
def test_all_of_a_step_can_be_found(search: Search, query: str, seq: int) -> None:
    assert seqs(search(query)) == [seq]


def test_errors_are_found(search: Search) -> None:
    assert seqs(search("dredging")) == [4]
    assert [hit.part for hit in search("never said")] == ["error"]


@pytest.mark.parametrize("query", ["submarine", "", "?!", '"', "(", "*", "' OR 1=1 --", "\0", "\ud800"])
def test_nothing_is_found_for_what_is_not_there(search: Search, query: str) -> None:
    assert search(query) == []


@pytest.mark.parametrize(
    "query",
    [
        'sea" OR "x',
        "sea NEAR(tides)",
        "spelled: sea",
        "{spelled} : sea",
        "-sea",
        "^sea",
        "sea)))",
        "((sea",
        "sea AND",
        "NOT sea",
        "sea*",
        "sea\0; DROP TABLE passages",
        "sea " * 200,
        "sea \ud83d",
    ],
)
def test_no_syntax_of_a_query_leaks_through(search: Search, query: str) -> None:
    assert {0, 1, 3} <= set(seqs(search(query)))


@given(st.text(st.characters(exclude_categories=()), max_size=50))
def test_any_query_is_answered(tmp_path_factory: pytest.TempPathFactory, query: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "any-query"
    assert len(searching(folder, steps_of(*LINES))(query, 3)) <= 3


def test_rare_words_count_most(search: Search) -> None:
    assert seqs(search("the sea lighthouse"))[0] == 1


def test_among_equals_the_newest_goes_first(tmp_path: Path) -> None:
    steps = steps_of(("user", "x"), ("one", "word"), ("one", "word"), ("one", "word"))
    assert seqs(searching(tmp_path, steps)("word", 2)) == [3, 2]


def test_compounds_are_found_after_the_word_itself(tmp_path: Path) -> None:
    lines = ["Der Vertragsentwurf", "Der Vertrag", "Das Wetter", "Der Mietvertrag"]
    find = searching(tmp_path, steps_of(*(("one", said) for said in lines)))
    assert seqs(find("Verträge")) == [1, 3, 0]
    assert seqs(find("Entwurf")) == [0]
    assert seqs(find("Vertragsverhandlung")) == [1]


def test_a_step_is_found_once_though_all_its_parts_match(tmp_path: Path) -> None:
    parts = [text("needle " * 2000), *(call(str(number), "look", {"for": "needle"}) for number in range(5))]
    hits = searching(tmp_path, steps_of(("user", "needle"), ("one", parts)))("needle", 10)
    assert sorted(seqs(hits)) == [0, 1]


def test_a_hit_says_where_it_stands(search: Search) -> None:
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
        ({"agent": "nobody"}, []),
        ({"part": "text", "agent": "one"}, [1]),
        ({"part": "tool_call"}, []),
        ({"after": START + timedelta(seconds=1)}, [1, 3]),
        ({"before": START + timedelta(seconds=1)}, [0]),
        ({"after": (START + timedelta(seconds=3)).replace(tzinfo=None)}, [3]),
        ({"after": START + timedelta(seconds=1), "before": START + timedelta(seconds=3)}, [1]),
        ({"agent": "x' OR '1'='1"}, []),
    ],
)
def test_filters_narrow_a_search(search: Search, filters: dict[str, Any], found: list[int]) -> None:
    assert sorted(seqs(search("sea", **filters))) == found


def test_a_long_result_is_found_by_what_stands_in_its_artifact(tmp_path: Path) -> None:
    content = "filler line\n" * 3000 + "the Überweisung went to account 4711\n" + "filler line\n" * 3000
    steps = steps_of(("user", "go"), ("tool_executor", [result("1", "filler [...]"), artifact("result.txt")]))
    [hit] = searching(tmp_path, steps, Texts(result_txt=content.encode()))("überweisung 4711")
    assert (hit.artifact, hit.seq, hit.part) == ("file://artifacts/result.txt", 1, "artifact")
    assert "Überweisung went to account 4711" in hit.snippet
    assert hit.offset is not None
    assert content[hit.offset :].startswith(hit.snippet)


def test_hits_in_one_artifact_are_few_and_far_between(tmp_path: Path) -> None:
    content = " ".join(f"needle {number}" for number in range(4_000))
    steps = steps_of(("one", [artifact("big.txt")]), ("one", "needle"))
    hits = searching(tmp_path, steps, Texts(big_txt=content.encode()))("needle", 10)
    offsets = sorted(hit.offset for hit in hits if hit.offset is not None)
    assert len(hits) == 4
    assert all(later - earlier > MAX_PASSAGE_CHARS for earlier, later in pairwise(offsets))


def test_an_artifact_that_is_missing_or_no_text_is_found_by_its_name_alone(tmp_path: Path) -> None:
    picture = artifact("sunset.png")
    picture["artifact"]["mime_type"] = "image/png"
    strange = artifact("x.txt")
    strange["artifact"]["uri"] = "file://elsewhere/../secret.txt"
    texts = Texts(sunset_png=b"needle", secret_txt=b"needle")
    find = searching(tmp_path, steps_of(("one", [picture, artifact("gone.txt"), strange])), texts)
    assert [hit.artifact for hit in find("sunset")] == ["file://artifacts/sunset.png"]
    assert find("gone.txt")[0].artifact == "file://artifacts/gone.txt"
    assert find("needle") == []
    assert texts.read == ["gone.txt"]


def test_an_artifact_is_read_once_and_up_to_its_limit(tmp_path: Path) -> None:
    texts = Texts(a_txt=b"\xff " + b"x" * (MAX_INDEXED_BYTES - 2) + b" needle")
    find = searching(tmp_path, steps_of(("one", [artifact("a.txt")]), ("two", [artifact("a.txt")])), texts)
    assert find("needle") == []
    assert find("x" * 100)
    assert texts.read == ["a.txt"]


def test_which_types_are_texts() -> None:
    texts = ["text/plain; charset=utf-8", "Application/JSON", "application/ld+json", "text/csv", "application/yaml"]
    assert all(map(is_text, texts))
    assert not any(map(is_text, ["image/svg+xml", "application/pdf", "", "application/octet-stream"]))


def test_a_new_step_costs_its_own_length(tmp_path: Path) -> None:
    steps = steps_of(*(("one", f"word {number}") for number in range(50)))
    known = Watched(steps[:49])
    index = MemoryIndex(known, Texts(), tmp_path)
    assert len(index.search(TASK, "word", 50).hits) == 49
    known.taken.clear()
    known.add(steps[49:])
    assert len(index.search(TASK, "word", 50).hits) == 50
    assert known.taken == [49]


def test_a_history_of_more_than_one_batch_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "BATCH_SIZE", 5)
    find = searching(tmp_path, steps_of(*(("one", f"word{number}") for number in range(12))))
    assert [seqs(find(f"word{number}")) for number in range(12)] == [[number] for number in range(12)]


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
def test_an_index_of_another_history_is_thrown_away(tmp_path: Path, other: list[TaskStep]) -> None:
    assert searching(tmp_path, steps_of(*LINES))("zürich")
    anew = searching(tmp_path, other)
    assert [anew(query) for query in ("zürich", "harbour", "sea")] == [
        searching(tmp_path / "fresh", other)(query) for query in ("zürich", "harbour", "sea")
    ]


def test_tasks_and_workspaces_do_not_mix(tmp_path: Path) -> None:
    known = Watched(steps_of(*LINES))
    one = MemoryIndex(known, Texts(), tmp_path, workspace="one")
    other = MemoryIndex(Watched(steps_of(("user", "else"))), Texts(), tmp_path, workspace="other")
    assert one.search(TASK, "sea", 5).hits
    assert not other.search(TASK, "sea", 5).hits
    assert not one.search("t2", "sea", 5).hits
    known.taken.clear()
    assert one.search(TASK, "sea", 5).hits
    assert known.taken == [len(LINES) - 1]


@given(
    histories(), st.lists(st.integers(0, 30), max_size=4), st.sampled_from(["hello", "word", "世界", "grüße a", "text"])
)
def test_an_index_that_grew_finds_what_one_made_at_once_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[TaskStep], cuts: list[int], query: str
) -> None:
    folder, texts = tmp_path_factory.mktemp("grown"), Texts(a_txt="hello 世界".encode())
    known = Watched()
    grown = MemoryIndex(known, texts, folder / "grown")
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(steps)], strict=True):
        known.add(steps[start:end])
        grown.search(TASK, "anything", 1)
    at_once = MemoryIndex(known, texts, folder / "at-once")
    assert _told(grown, query) == _told(at_once, query)


def _told(index: MemoryIndex, query: str) -> list[SearchHit]:
    """What is found, with scores that do not hang on the order in which numbers were added."""
    return [replace(hit, score=round(hit.score, 9)) for hit in index.search(TASK, query, 10).hits]

"""memory_search: rare words count most, and every step can be found."""

from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.search import SNIPPET, search
from roboco.domain.step import TaskStep
from tests.unit.domain.steps import artifact, call, failed, histories, result, steps_of, text

STEPS = steps_of(
    ("user", "Write about the sea and the Zürich harbour"),
    ("one", [text("the sea the sea"), call("1", "web_search", {"query": "lighthouse"})]),
    ("tool_executor", [result("1", {"title": "Tides"}), artifact("chart.png")]),
    ("two", "the 世界 harbour of the sea"),
    ("tool_executor", [result("2", error="timeout while dredging")]),
    ("orchestrator", [failed("limit", "never said")]),
)


def found(query: str, limit: int = 10) -> list[int]:
    return [hit.seq for hit in search(STEPS, query, limit)]


def test_all_of_a_step_can_be_found() -> None:
    assert found("zürich") == [0]
    assert found("LIGHTHOUSE") == [1]
    assert found("web_search") == [1]
    assert found("tides") == [2]
    assert found("chart") == [2]
    assert found("dredging") == [4]
    assert found("世") == [3]


def test_nothing_is_found_for_what_is_not_there() -> None:
    assert found("submarine") == []
    assert found("") == []
    assert found("?!") == []
    assert search([], "sea", 5) == []


def test_rare_words_count_most() -> None:
    assert found("the sea harbour")[0] == 3
    assert found("sea lighthouse")[0] == 1


def test_among_equals_the_newest_goes_first() -> None:
    steps = steps_of(("user", "x"), ("one", "word"), ("one", "word"), ("one", "word"))
    assert [hit.seq for hit in search(steps, "word", 2)] == [3, 2]


def test_a_hit_has_a_snippet_around_the_word() -> None:
    steps = steps_of(("user", "a " * 500 + "needle" + " b" * 500))
    [hit] = search(steps, "needle", 5)
    assert "needle" in hit.snippet
    assert len(hit.snippet) <= SNIPPET
    assert hit.record() == {
        "step_id": steps[0].step_id,
        "seq": 0,
        "agent_name": "user",
        "score": round(hit.score, 3),
        "snippet": hit.snippet,
    }


@given(histories(), st.sampled_from(["hello", "word", "世界", "a", "grüße text", "a.txt", ""]), st.integers(1, 5))
def test_hits_are_sorted_and_no_more_than_asked_for(steps: list[TaskStep], query: str, limit: int) -> None:
    hits = search(steps, query, limit)
    assert len(hits) <= limit
    assert [(-hit.score, -hit.seq) for hit in hits] == sorted((-hit.score, -hit.seq) for hit in hits)
    assert len({hit.seq for hit in hits}) == len(hits)

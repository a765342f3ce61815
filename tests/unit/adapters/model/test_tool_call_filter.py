"""ToolCallFilter: words pass, tool calls as JSON do not, however the text is cut into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.adapters.model.tool_call_filter import HELD_CHARS, ToolCallFilter

CALL = '{"calls": [{"tool": "add", "args": {"text": "} ] \\\\ \\" {"}}]}'
CASES = [
    (CALL, ""),
    (f"```json\n{CALL}\n```\nDone.", "Done."),
    (f"```\n{CALL}\n``` \n", ""),
    (f"Let me see. {CALL} Well. {CALL}", "Let me see.  Well. "),
    ('[{"name": "add", "arguments": {}}] tail', " tail"),
    ('{"function": {"name": "add"}}', ""),
    ('{"tool_calls": [', ""),
    ('```json\n{"to', ""),
    ("{", ""),
    ('{"calls": [{"tool": add}]} tail', " tail"),
    ('{"name": "Ann", "age": 5}', '{"name": "Ann", "age": 5}'),
    ("Use `a[0]` and {x}, see [this](u).", "Use `a[0]` and {x}, see [this](u)."),
    ("```py\nx = {1: 2}\n```\n", "```py\nx = {1: 2}\n```\n"),
    ('{"text": "hello"}', '{"text": "hello"}'),
]


def words(*pieces: str) -> str:
    """The words of an answer in these pieces."""
    found = ToolCallFilter()
    return "".join(map(found.feed, pieces)) + found.finish()


@pytest.mark.parametrize(("answer", "expected"), CASES)
def test_words_of_an_answer(answer: str, expected: str) -> None:
    assert words(answer) == expected


@given(st.sampled_from(CASES), st.integers(1, 9))
def test_words_do_not_depend_on_the_pieces(case: tuple[str, str], size: int) -> None:
    answer, expected = case
    assert words(*(answer[place : place + size] for place in range(0, len(answer), size))) == expected


@given(st.text(alphabet='ab `{}[]":,\\\n', max_size=60))
def test_text_without_a_key_of_calls_is_unchanged(text: str) -> None:
    assert text.startswith(words(text))
    assert words(f"{text} .") in (f"{text} .", text.rstrip("` \t\n"))


@pytest.mark.parametrize(
    "answer", ["```" + " " * 200_000 + "x", "`" * 200_000, "[" * 200_000, f"```\n{CALL}" + " " * 200_000 + "x"]
)
def test_the_cost_of_an_answer_grows_with_its_length_alone(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def next_words(self: ToolCallFilter) -> str | None:
        searched.append(len(self._held))
        return original(self)

    original = ToolCallFilter._next_words
    monkeypatch.setattr(ToolCallFilter, "_next_words", next_words)
    words(answer)
    assert max(searched) <= 2 * HELD_CHARS
    assert sum(searched) <= 3 * HELD_CHARS * len(answer)


def test_whitespace_after_a_call_is_held_for_a_short_time() -> None:
    found = ToolCallFilter()
    found.feed(f"```\n{CALL}")
    assert "".join(found.feed(" ") for _ in range(2 * HELD_CHARS)) != ""


def test_words_are_published_without_delay() -> None:
    found = ToolCallFilter()
    assert found.feed("One. ") == "One. "
    assert found.feed("{" + "x" * HELD_CHARS) == "{" + "x" * HELD_CHARS

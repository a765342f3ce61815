"""Words: what a text is found by, whatever its language, and nothing of a query's syntax."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roboco.adapters.search.analyzer import _CJK, iter_words, normalize
from roboco.adapters.search.query import match_expression, parse_query
from roboco.adapters.search.snippet import MAX_SNIPPET_CHARS, snippet

ENGLISH = "The {} of the house is to be found with this and that"
GERMAN = "Der {} ist von der Firma und nicht für den Kunden"


def common(text: str, query: str) -> set[str]:
    """The terms that a text and a query share."""
    return set(normalize(text).split()) & set(parse_query(query).terms)


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("houses", "house"),
        ("policies", "policy"),
        ("Häuser", "Haus"),
        ("Haus", "Häuser"),
        ("Verträge", "Vertrag"),
        ("Vertrag", "Verträgen"),
        ("Größe", "GROESSE"),
        ("STRASSE", "Straße"),
        ("Zürich", "zurich"),
        ("café", "cafe"),
        ("cafe\u0301", "café"),
        ("ＧＰＴ", "gpt"),
        ("Привет", "привет"),
    ],
)
def test_a_word_is_found_by_its_other_forms_in_any_surroundings(said: str, query: str) -> None:
    for text in (said, ENGLISH.format(said), GERMAN.format(said)):
        assert common(text, query), text


@pytest.mark.parametrize(("said", "query"), [("Haeuser", "Häuser"), ("Ergebnisse", "Ergebnis")])
def test_a_german_word_is_found_by_its_other_forms_unless_all_around_it_is_english(said: str, query: str) -> None:
    assert common(said, query)
    assert common(GERMAN.format(said), query)


def test_an_english_word_is_found_by_its_other_forms_unless_all_around_it_is_german() -> None:
    assert common("running", "run")
    assert common(ENGLISH.format("running"), "run")


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("我们签了合同。", "合同"),
        ("我们签了合同。", "找合同"),
        ("世界", "世"),
        ("世界", "界"),
        ("東京タワーに行く", "タワー"),
        ("ﾀﾜｰ", "タワー"),
        ("합의서를 보냈다", "합의서"),
        ("GPT模型", "模型"),
        ("GPT模型", "gpt"),
    ],
)
def test_scripts_without_spaces_are_found_by_pairs_and_single_characters(said: str, query: str) -> None:
    assert common(said, query) or any(term.startswith(query) for term in normalize(said).split())


def test_two_characters_that_are_not_together_are_no_word() -> None:
    assert not common("合理的同意", "合同")


@pytest.mark.parametrize(
    "query", ["foo_bar.baz", "bar", "baz", "foo bar", "FOO_BAR.BAZ", "parseInput", "parse", "parseinput", "1,234.56"]
)
def test_identifiers_and_numbers_are_found_whole_and_by_their_pieces(query: str) -> None:
    assert common("call foo_bar.baz then parseInput for 1,234.56", query)


def test_a_number_is_found_with_or_without_its_grouping() -> None:
    assert common("costs 1,234,567.89 in all", "1234567")
    assert common("kostet 1.234.567,89 im Ganzen", "1234567")
    assert not common("version 1.2.3", "123")


def test_a_word_of_a_long_line_of_characters_is_cut() -> None:
    assert common("x" * 5000, "x" * 4000)
    assert max(map(len, normalize("x" * 5000).split())) <= 64


@example("\U0003134b")  # a letter that is younger than the Unicode database of some Pythons
@example("\u30fb")  # punctuation between katakana
@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_terms_hold_nothing_but_letters_digits_and_underscores(text: str) -> None:
    expression = match_expression(parse_query(text).terms)
    term = rf'"[\w{_CJK}]+"\*?'
    assert re.fullmatch(f"({term}( OR {term})*)?", expression), expression
    assert " ".join(normalize(text).split()) == normalize(text).strip()


@given(st.text())
def test_words_lie_one_after_the_other_in_the_text(text: str) -> None:
    places = [(start, end) for start, end, _ in iter_words(text)]
    assert places == sorted(places)
    assert all(0 <= start < end <= len(text) for start, end in places)


@given(st.text(max_size=2000), st.text(max_size=20))
def test_a_snippet_is_a_stretch_of_the_text(text: str, query: str) -> None:
    start, shown = snippet(text, parse_query(query).terms)
    assert len(shown) <= MAX_SNIPPET_CHARS
    assert text[start : start + len(shown)] == shown


def test_a_snippet_shows_where_most_words_stand_together() -> None:
    text = "harbour " + "of the sea " * 60 + "the lighthouse beside the harbour " + "of the sea " * 60
    start, shown = snippet(text, parse_query("lighthouse harbour").terms)
    assert "lighthouse beside the harbour" in shown
    assert start > MAX_SNIPPET_CHARS


def test_a_snippet_of_unspaced_text_shows_the_pair() -> None:
    _, shown = snippet("天气很好" * 200 + "签了合同" + "天气很好" * 200, parse_query("合同").terms)
    assert "合同" in shown

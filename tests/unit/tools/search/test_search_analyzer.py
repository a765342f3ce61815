"""The analyzer and the query parser: terms of texts in any language, without any syntax of queries."""

import pytest

from roboco.tools.search.analyzer import normalize, query_terms

ENGLISH_SENTENCE = "The {} of the house was found with this and that"
GERMAN_SENTENCE = "Der {} ist von der Firma und nicht für den Kunden"


def common_terms(text: str, query: str) -> set[str]:
    """Return the terms that a text and a query share."""
    return set(normalize(text).split()) & set(query_terms(query))


@pytest.mark.parametrize(
    ("word", "query"),
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
def test_a_word_is_found_by_its_other_forms_in_any_sentence(word: str, query: str) -> None:
    for text in (word, ENGLISH_SENTENCE.format(word), GERMAN_SENTENCE.format(word)):
        assert common_terms(text, query), text


@pytest.mark.parametrize(
    ("word", "query"),
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
def test_scripts_without_spaces_are_found_by_pairs_and_single_characters(word: str, query: str) -> None:
    assert common_terms(word, query) or any(term.startswith(query) for term in normalize(word).split())


@pytest.mark.parametrize(
    "query", ["foo_bar.baz", "bar", "baz", "foo bar", "FOO_BAR.BAZ", "parseInput", "parse", "parseinput", "1,234.56"]
)
def test_identifiers_and_numbers_are_found_whole_and_by_their_parts(query: str) -> None:
    assert common_terms("call foo_bar.baz then parseInput for 1,234.56", query)

"""Snippets: the section of a text with the most query terms close together."""

from collections.abc import Collection

from roboco.tools.search.analyzer import iter_words

MAX_SNIPPET_CHARS = 240
"""Maximum number of characters of a snippet."""
_LEADING_CHARS = MAX_SNIPPET_CHARS // 4


def snippet(text: str, terms: Collection[str]) -> tuple[int, str]:
    """Return the start of the snippet and the snippet, cut at spaces where possible."""
    start = max(0, _best_start(text, frozenset(terms)) - _LEADING_CHARS)
    if start and (space := text.find(" ", start, start + _LEADING_CHARS // 2)) >= 0:
        start = space + 1
    end = start + MAX_SNIPPET_CHARS
    if end < len(text) and (space := text.rfind(" ", end - _LEADING_CHARS // 2, end)) >= 0:
        end = space
    shown = text[start:end]
    return start + len(shown) - len(shown.lstrip()), shown.strip()


def _best_start(text: str, terms: frozenset[str]) -> int:
    """Return the start of the best matching section: the one with many different and long terms, which are rarer."""
    marks: list[tuple[int, int, frozenset[str]]] = []
    best, place = 0, 0
    first = 0
    for start, end, word_terms in iter_words(text):
        matched = terms.intersection(word_terms.split())
        if not matched:
            continue
        marks.append((start, end, matched))
        while end - marks[first][0] > MAX_SNIPPET_CHARS - _LEADING_CHARS and first < len(marks) - 1:
            first += 1
        worth = sum(min(len(term), 10) for term in frozenset().union(*(mark[2] for mark in marks[first:])))
        if worth > best:
            best, place = worth, marks[first][0]
    return place

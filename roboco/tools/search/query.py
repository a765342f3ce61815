"""Analysis of a query. The query is untrusted: only terms of its words reach the index."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from roboco.tools.search.analyzer import is_unspaced, normalize

MAX_QUERY_TERMS = 64
"""Maximum number of terms of a query; later ones are left out."""
MIN_COMPOUND_CHARS = 10
"""Minimum number of letters of a word that may be a compound."""
MIN_MEMBER_CHARS = 4
"""Minimum number of letters of a compound's members."""
_LONG_TERM = re.compile(rf"\S{{{MIN_COMPOUND_CHARS},}}")


@dataclass(frozen=True)
class Query:
    """The terms of a query, each once."""

    terms: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """Return the terms that may be members of compounds."""
        return tuple(
            term for term in self.terms if len(term) >= MIN_MEMBER_CHARS and may_be_compound(term, MIN_MEMBER_CHARS)
        )

    @property
    def compound_parts(self) -> tuple[str, ...]:
        """Return the possible first and last members of the compounds among the terms."""
        found: dict[str, None] = {}
        for term in self.terms:
            if may_be_compound(term):
                lengths = range(MIN_MEMBER_CHARS, len(term) - MIN_MEMBER_CHARS + 1)
                found |= dict.fromkeys(piece for size in lengths for piece in (term[:size], term[-size:]))
        return tuple(piece for piece in found if piece not in self.terms)[: 2 * MAX_QUERY_TERMS]


def parse_query(text: str) -> Query:
    """Return the parsed query. It has no terms if the text has no word."""
    terms: dict[str, None] = {}
    for word in text.split():
        word_terms = normalize(word).split()
        pairs = any(is_unspaced(term) and len(term) > 1 for term in word_terms)
        terms |= dict.fromkeys(term for term in word_terms if not (pairs and is_unspaced(term) and len(term) == 1))
    return Query(tuple(terms)[:MAX_QUERY_TERMS])


def long_terms(line: str) -> list[str]:
    """Return the terms of a line that are long enough for compounds."""
    return _LONG_TERM.findall(line)


def may_be_compound(term: str, min_chars: int = MIN_COMPOUND_CHARS) -> bool:
    """Return True if the term is one long word of letters."""
    return len(term) >= min_chars and term.isalpha() and not is_unspaced(term)


def match_expression(terms: Iterable[str]) -> str:
    """Return the full-text expression for any of the terms, each quoted. A single character matches pairs with it."""
    return " OR ".join(f'"{term}"*' if is_unspaced(term) and len(term) == 1 else f'"{term}"' for term in terms)

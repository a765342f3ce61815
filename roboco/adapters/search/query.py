"""Analysis of a query. The query is untrusted: only terms of its words reach the index."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from roboco.adapters.search.analyzer import spelled, unspaced

MOST = 64
"""Maximum number of terms of a query; later ones are left out."""
COMPOUND = 10
"""Minimum number of letters of a word that may be a compound."""
MEMBER = 4
"""Minimum number of letters of a compound's members."""
_LONG = re.compile(rf"\S{{{COMPOUND},}}")


@dataclass(frozen=True)
class Asked:
    """The terms of a query, each once."""

    terms: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """Return the terms that may be members of compounds."""
        return tuple(term for term in self.terms if len(term) >= MEMBER and may_be_compound(term, MEMBER))

    @property
    def pieces(self) -> tuple[str, ...]:
        """Return the possible first and last members of the compounds among the terms."""
        found: dict[str, None] = {}
        for term in self.terms:
            if may_be_compound(term):
                lengths = range(MEMBER, len(term) - MEMBER + 1)
                found |= dict.fromkeys(piece for size in lengths for piece in (term[:size], term[-size:]))
        return tuple(piece for piece in found if piece not in self.terms)[: 2 * MOST]


def asked(query: str) -> Asked:
    """Return the parsed query. It has no terms if the text has no word."""
    terms: dict[str, None] = {}
    for word in query.split():
        spoken = spelled(word).split()
        pairs = any(unspaced(term) and len(term) > 1 for term in spoken)
        terms |= dict.fromkeys(term for term in spoken if not (pairs and unspaced(term) and len(term) == 1))
    return Asked(tuple(terms)[:MOST])


def long_terms(line: str) -> list[str]:
    """Return the terms of a line that are long enough for compounds."""
    return _LONG.findall(line)


def may_be_compound(term: str, least: int = COMPOUND) -> bool:
    """Return True if the term is one long word of letters."""
    return len(term) >= least and term.isalpha() and not unspaced(term)


def any_of(terms: Iterable[str]) -> str:
    """Return the full-text expression for any of the terms, each quoted. A single character matches pairs with it."""
    return " OR ".join(f'"{term}"*' if unspaced(term) and len(term) == 1 else f'"{term}"' for term in terms)

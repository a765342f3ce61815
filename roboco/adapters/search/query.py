"""Asked: what a query asks for. The query is untrusted: only terms of its words reach the index."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from roboco.adapters.search.analyzer import spelled, unspaced

MOST = 64
"""Terms of a query; later ones are left out."""
COMPOUND = 10
"""From how many letters on a word may be a compound."""
MEMBER = 4
"""The fewest letters of a compound's members."""
_LONG = re.compile(rf"\S{{{COMPOUND},}}")


@dataclass(frozen=True)
class Asked:
    """The terms of a query, each once."""

    terms: tuple[str, ...]

    @property
    def members(self) -> tuple[str, ...]:
        """The terms that compounds may be made of."""
        return tuple(term for term in self.terms if len(term) >= MEMBER and may_be_compound(term, MEMBER))

    @property
    def pieces(self) -> tuple[str, ...]:
        """What the compounds among the terms may begin and end with."""
        found: dict[str, None] = {}
        for term in self.terms:
            if may_be_compound(term):
                lengths = range(MEMBER, len(term) - MEMBER + 1)
                found |= dict.fromkeys(piece for size in lengths for piece in (term[:size], term[-size:]))
        return tuple(piece for piece in found if piece not in self.terms)[: 2 * MOST]


def asked(query: str) -> Asked:
    """What the query asks for; nothing if it has no word."""
    terms: dict[str, None] = {}
    for word in query.split():
        spoken = spelled(word).split()
        pairs = any(unspaced(term) and len(term) > 1 for term in spoken)
        terms |= dict.fromkeys(term for term in spoken if not (pairs and unspaced(term) and len(term) == 1))
    return Asked(tuple(terms)[:MOST])


def long_terms(line: str) -> list[str]:
    """The terms of a line that are long enough for compounds."""
    return _LONG.findall(line)


def may_be_compound(term: str, least: int = COMPOUND) -> bool:
    """Whether the term is one long word of letters."""
    return len(term) >= least and term.isalpha() and not unspaced(term)


def any_of(terms: Iterable[str]) -> str:
    """The terms as a full-text expression: any of them, each quoted. A single character of a run begins a pair."""
    return " OR ".join(f'"{term}"*' if unspaced(term) and len(term) == 1 else f'"{term}"' for term in terms)

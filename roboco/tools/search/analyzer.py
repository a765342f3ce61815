"""Analysis of texts into terms, for English, German, Chinese, Japanese and Korean, and any other language with letters.

A word yields its English and its German stem. Scripts without spaces yield pairs of neighbouring characters. The last
character of a run is also a term by itself, so that `"世"*` finds every single character. Terms contain only letters,
digits, "_" and characters of these scripts, and therefore no syntax of a query language.
"""

import importlib
import re
import threading
import unicodedata
from collections.abc import Iterable
from functools import cache, lru_cache
from importlib.metadata import version
from operator import add
from typing import Any

MAX_TERM_CHARS = 64
"""Maximum number of characters of a term; longer ones are truncated."""
MAX_QUERY_TERMS = 64
"""Maximum number of terms of a query; later ones are left out."""
_STEMMED_LENGTHS = range(4, 41)
"""Lengths of words that have a stem."""
_MAX_CACHED_WORDS = 1 << 16
"""Maximum number of words whose terms are cached."""

_CJK = (
    "\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_LETTER = rf"[^\W_{_CJK}]"
_WORD = re.compile(rf"[{_CJK}]+|{_LETTER}+(?:(?:[_.\-:/@']{{1,2}}|(?<=\d),(?=\d)){_LETTER}+)*")
_UNSPACED = re.compile(f"[{_CJK}]")
_PIECE = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_GROUPED = re.compile(r"(\d{1,3}(?:([.,])\d{3})(?:\2\d{3})*)(?:[.,]\d+)?")


class _Stemmers(threading.local):
    """The stemmers of a thread: a stemmer processes one word at a time."""

    def __init__(self) -> None:
        snowball: Any = importlib.import_module("snowballstemmer")  # of the extra `workers`, absent in a client
        self.english = snowball.stemmer("english")
        self.german = snowball.stemmer("german")


@cache
def _stemmers() -> _Stemmers:
    return _Stemmers()


@cache
def spelling() -> str:
    """Return the version of the way from texts to terms, which depends on the stemmers that are installed.

    An index of another version is useless.
    """
    return f"2 {type(_stemmers().german).__module__} {version('snowballstemmer')}"


def normalize(text: str) -> str:
    """Return the terms of the text in one line, as often as they occur."""
    return " ".join(map(_terms_of, _WORD.findall(unicodedata.normalize("NFC", text))))


def query_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a query, each once; of characters of a script without spaces the pairs, if there are any."""
    terms: dict[str, None] = {}
    for word in text.split():
        word_terms = normalize(word).split()
        pairs = any(is_unspaced(term) and len(term) > 1 for term in word_terms)
        terms |= dict.fromkeys(term for term in word_terms if not (pairs and is_unspaced(term) and len(term) == 1))
    return tuple(terms)[:MAX_QUERY_TERMS]


def match_expression(terms: Iterable[str]) -> str:
    """Return the full-text expression for any of the terms, each quoted. A single character matches pairs with it."""
    return " OR ".join(f'"{term}"*' if is_unspaced(term) and len(term) == 1 else f'"{term}"' for term in terms)


def is_unspaced(term: str) -> bool:
    """Return True if the term is in a script without spaces between words, which is indexed in pairs of characters."""
    return _UNSPACED.match(term) is not None


@lru_cache(maxsize=_MAX_CACHED_WORDS)
def _terms_of(word: str) -> str:
    """Return the terms of a word, or of characters of a script without spaces."""
    if word.isascii() and word.islower() and word.isalpha():
        return " ".join(dict.fromkeys(_stems(word)))
    plain = unicodedata.normalize("NFKC", word)
    if _UNSPACED.match(word):
        return " ".join(map(add, plain, [*plain[1:], ""]))
    pieces = _PIECE.findall(plain)
    terms = dict.fromkeys(["_".join(pieces).casefold()[:MAX_TERM_CHARS]] if len(pieces) > 1 else [])
    for piece in pieces:
        inner = _CAMEL.split(piece)
        for one in [piece, *inner] if len(inner) > 1 else [piece]:
            terms |= dict.fromkeys(_stems(one.casefold()))
    if grouped := _GROUPED.fullmatch(plain):
        terms[re.sub(r"\D", "", grouped.group(1))] = None
    return " ".join(terms)


def _stems(word: str) -> tuple[str, ...]:
    """Return the word's stems, without accents; or the word itself if it is short or has digits."""
    if len(word) not in _STEMMED_LENGTHS or not word.isalpha():
        return (_strip_accents(word),)
    return tuple(_strip_accents(one.stemWord(word)) for one in (_stemmers().english, _stemmers().german))


def _strip_accents(word: str) -> str:
    if word.isascii():
        return word[:MAX_TERM_CHARS]
    decomposed = unicodedata.normalize("NFKD", word)
    kept = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return "".join(_PIECE.findall(unicodedata.normalize("NFC", kept)))[:MAX_TERM_CHARS]

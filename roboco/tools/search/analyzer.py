"""Analysis of texts into terms, for English, German, Chinese, Japanese and Korean, and any other language with letters.

A word yields its stem: the English one, the German one, or both if the surrounding words do not show the language.
Scripts without spaces yield pairs of neighbouring characters. The last character of a run is also a term by itself, so
that `"世"*` finds every single character. Terms contain only letters, digits, "_" and characters of these scripts, and
therefore no syntax of a query language.
"""

import importlib
import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.metadata import version
from operator import add
from typing import Any

MAX_TERM_CHARS = 64
"""Maximum number of characters of a term; longer ones are truncated."""
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

_UMLAUT = re.compile("[äöüß]")
_ENGLISH = "the of and to is that for with on this are be it by not from or which have has its will as at we you can"
_GERMAN = (
    "der und das den von zu mit dem des ist nicht ein eine auf für im sich auch als es bei oder wird sind nach wie "
    "aus zur zum über wir einer einen dass"
)
_ENGLISH_WORDS, _GERMAN_WORDS = frozenset(_ENGLISH.split()), frozenset(_GERMAN.split())
_MIN_FUNCTION_WORDS = 3
"""Minimum number of different function words that identify a language, and their minimum ratio to the other one's."""


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
    return f"1 {type(_stemmers().german).__module__} {version('snowballstemmer')}"


def normalize(text: str) -> str:
    """Return the terms of the text in one line, as often as they occur."""
    found = _WORD.findall(unicodedata.normalize("NFC", text))
    return " ".join(map(_term_caches[_detect_language(found)].__getitem__, found))


def iter_words(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the start, the end and the terms (in one line) of each word of the text.

    In scripts without spaces, yield each pair of characters, with the terms of the pair and of its first character.
    """
    language = _detect_language(_WORD.findall(text))
    for found in _WORD.finditer(text):
        if not _UNSPACED.match(found.group()):
            yield found.start(), found.end(), _term_caches[language][found.group()]
            continue
        for place in range(found.start(), found.end()):
            end = min(place + 2, found.end())
            yield place, end, unicodedata.normalize("NFKC", f"{text[place:end]} {text[place]}")


def is_unspaced(term: str) -> bool:
    """Return True if the term is in a script without spaces between words, which is indexed in pairs of characters."""
    return _UNSPACED.match(term) is not None


class _TermCache(dict[str, str]):
    """A cache of the terms of words in a language: most words of a long history cost only a look-up."""

    def __init__(self, language: str) -> None:
        self._language = language

    def __missing__(self, word: str) -> str:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        self[word] = terms = _terms_of(word, self._language)
        return terms


_term_caches = {language: _TermCache(language) for language in ("", "english", "german")}


def _terms_of(word: str, language: str) -> str:
    """Return the terms of a word in a language ("" if unknown), or of characters of a script without spaces."""
    if word.isascii() and word.islower() and word.isalpha():
        return " ".join(dict.fromkeys(_stems(word, language)))
    plain = unicodedata.normalize("NFKC", word)
    if _UNSPACED.match(word):
        return " ".join(map(add, plain, [*plain[1:], ""]))
    pieces = _PIECE.findall(plain)
    terms = dict.fromkeys(["_".join(pieces).casefold()[:MAX_TERM_CHARS]] if len(pieces) > 1 else [])
    for piece in pieces:
        inner = _CAMEL.split(piece)
        for one in [piece, *inner] if len(inner) > 1 else [piece]:
            terms |= dict.fromkeys(_stems(one.casefold(), language))
    if grouped := _GROUPED.fullmatch(plain):
        terms[re.sub(r"\D", "", grouped.group(1))] = None
    return " ".join(terms)


def _stems(word: str, language: str) -> tuple[str, ...]:
    """Return the word's stems, English first, without accents; or the word itself if it is short or has digits."""
    if len(word) not in _STEMMED_LENGTHS or not word.isalpha():
        return (_strip_accents(word),)
    if language == "german" or _UMLAUT.search(word):
        return (_german_stem(word),)
    if language == "english":
        return (_english_stem(word),)
    return (_english_stem(word), _german_stem(word))


@lru_cache(maxsize=_MAX_CACHED_WORDS)
def _english_stem(word: str) -> str:
    return _strip_accents(_stemmers().english.stemWord(word))


@lru_cache(maxsize=_MAX_CACHED_WORDS)
def _german_stem(word: str) -> str:
    return _strip_accents(_stemmers().german.stemWord(word))


def _detect_language(found: list[str]) -> str:
    """Return the language that the function words among these words identify, or "" if they identify none."""
    distinct = set(found)
    english, german = len(_ENGLISH_WORDS & distinct), len(_GERMAN_WORDS & distinct)
    if english >= _MIN_FUNCTION_WORDS and english > _MIN_FUNCTION_WORDS * german:
        return "english"
    if german >= _MIN_FUNCTION_WORDS and german > _MIN_FUNCTION_WORDS * english:
        return "german"
    return ""


def _strip_accents(word: str) -> str:
    if word.isascii():
        return word[:MAX_TERM_CHARS]
    decomposed = unicodedata.normalize("NFKD", word)
    kept = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return "".join(_PIECE.findall(unicodedata.normalize("NFC", kept)))[:MAX_TERM_CHARS]

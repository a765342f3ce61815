"""Patterns: regular expressions in Rust's syntax, of a bounded weight.

The time of Rust's engine is linear in the text, but also linear in the size of the compiled pattern. `(a{1000}){100}`
compiles to 100,000 states: on 100 KB of text it ran for 30 s. Therefore weight times text bounds the time.
"""

import re
from functools import lru_cache
from typing import Annotated

from pydantic import AfterValidator, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

MAX_WEIGHT = 1000
"""The heaviest pattern: about 20 ms to compile."""
MAX_PATTERN_CHARS = 2000
"""The largest number of characters of a pattern."""
MAX_SEARCH_COST = 3_000_000
"""The largest product of weight and characters in one search: up to 30 ms."""
_INNER_CLASS = r"\[\^?+\]?+(?:\\.|[^\[\]\\])*+\]"
_CLASS = rf"\[\^?+\]?+(?:\\.|{_INNER_CLASS}|[^\[\]\\])*+\]"
_TOKEN = re.compile(rf"(?s){_CLASS}|\\[pPxub]\{{[^}}]*\}}|\\[pP]\w|\\.|\{{\s*\d+\s*(?:,\s*\d*\s*)?\}}|.")
"""A class (with at most one level of classes in it), an escape, a count, or another sign."""
_VERBOSE = re.compile(r"(?<!\\)(?:\\\\)*\(\?[a-zA-Z]*x")


def check_pattern(pattern: str) -> str:
    """Return the pattern.

    Raise ValueError if it is not a regular expression in Rust's syntax, or if it is too heavy.
    """
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"a regular expression of {len(pattern)} characters, at most {MAX_PATTERN_CHARS} are possible")
    if _VERBOSE.search(pattern):
        raise ValueError("a regular expression with the flag x; write it without spaces and comments")
    if (heavy := weight(pattern)) > MAX_WEIGHT:
        raise ValueError(f"a regular expression of weight {heavy}, at most {MAX_WEIGHT} is possible; repeat less")
    try:
        _matcher(pattern)
    except SchemaError as error:
        reason = " ".join(str(error).split()).rpartition("parse error: ")[2]
        raise ValueError(f"not a regular expression of Rust's syntax: {reason}") from error
    return pattern


Pattern = Annotated[str, AfterValidator(check_pattern)]
"""A regular expression that `check_pattern` accepts."""


def matches(pattern: str, text: str) -> bool:
    """Return True if the pattern is found in the text.

    If the text is longer than `max_searched_chars`, only its end is searched.
    """
    try:
        _matcher(pattern).validate_python(text[-max_searched_chars(pattern) :])
    except ValidationError:
        return False
    return True


def max_searched_chars(pattern: str) -> int:
    """Return the number of characters of a text that are searched.

    It is three million for a pattern of one letter, and 3,000 for the heaviest.
    """
    return max(1, MAX_SEARCH_COST // weight(pattern))


@lru_cache(maxsize=1024)
def weight(pattern: str) -> int:
    """Return an estimate of the states of the compiled pattern, rather too high than too low.

    A literal weighs 1; a repetition weighs its content times its count; nested counts multiply.
    """
    groups, atom = [0], 0
    for sign in _TOKEN.findall(pattern):
        if sign[0] == "{" and len(sign) > 1:
            groups[-1] += atom * (_repeat_count(sign) - 1)
            atom *= _repeat_count(sign)
        elif sign == "(":
            groups.append(1)
        elif sign not in "*+?" or not atom:
            atom = groups.pop() if sign == ")" and len(groups) > 1 else _atom_weight(sign)
            groups[-1] += atom
    return max(1, sum(groups))


def _atom_weight(sign: str) -> int:
    """Return 20 for a class of hundreds of ranges of Unicode, and much for a bracket that begins too deep a class."""
    match sign[0]:
        case "[":
            wide = not sign.isascii() or "\\" in sign or "[:" in sign
            return MAX_WEIGHT + 1 if sign == "[" else 20 if wide else 4
        case "\\":
            return 8 if sign[1:] in ("d", "s") else 20 if sign[1:2].isalpha() else 1
        case first:
            return 4 if first == "." or not first.isascii() else 1


def _repeat_count(sign: str) -> int:
    """Return the larger number of `{n}`, `{n,}` or `{n,m}`; one more if it has no upper bound."""
    least, comma, most = sign[1:-1].partition(",")
    most = most.strip()
    return max(int(least) + bool(comma and not most), int(most or 0), 1)


# The engine may keep a few megabytes for each compiled pattern.
@lru_cache(maxsize=8)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])

"""Patterns: regular expressions in Rust's syntax, of a bounded weight.

The time of Rust's engine is linear in the text, but also linear in the size of the compiled pattern. `(a{1000}){100}`
compiles to 100,000 states: on 100 KB of text it ran for 30 s. Therefore weight times text bounds the time.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError

MAX_WEIGHT = 1000
"""The heaviest pattern: about 20 ms to compile."""
MAX_PATTERN_CHARS = 2000
"""The largest number of characters of a pattern."""
MAX_SEARCH_COST = 3_000_000
"""The largest product of weight and characters in one search: up to 30 ms."""
_SHORTHAND_WEIGHT = 20
"""The weight of a class such as `\\w`, which contains hundreds of ranges of Unicode."""
_DIGIT_WEIGHT = 8
_CLASS_WEIGHT = 4
_VERBOSE = re.compile(r"(?<!\\)(?:\\\\)*\(\?[a-zA-Z]*x")
_COUNTED = re.compile(r"\{(\d{1,9})(,?)(\d{0,9})\}")


def check_pattern(pattern: str | None) -> str | None:
    """Return the pattern.

    Raise ValueError if it is not a regular expression in Rust's syntax, or if it is too heavy.
    """
    if pattern is None:
        return None
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


def matches(pattern: str, text: str) -> bool:
    """Return True if the pattern is found in the text.

    If the text is longer than `max_searched_chars`, only its end is searched.
    """
    return compiled_search(pattern)(text)


def compiled_search(pattern: str) -> Callable[[str], bool]:
    """Return `matches` for this pattern, compiled once for as long as the caller keeps the function."""
    matcher, most = _matcher(pattern), max_searched_chars(pattern)

    def found(text: str) -> bool:
        try:
            matcher.validate_python(text[-most:])
        except ValidationError:
            return False
        return True

    return found


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
    groups = [0]
    atom, place = 0, 0
    while place < len(pattern):
        sign = pattern[place]
        counted = _COUNTED.match(pattern, place) if sign == "{" else None
        if counted:
            groups[-1] += atom * (_repeat_count(counted) - 1)
            atom *= _repeat_count(counted)
            place = counted.end()
            continue
        if sign == "(":
            groups.append(1)
            place += 1
            continue
        if sign == ")" and len(groups) > 1:
            atom, end = groups.pop(), place + 1
        elif sign in "*+?" and atom:
            place += 1
            continue
        else:
            atom, end = _atom(pattern, place)
        groups[-1] += atom
        place = end
    return max(1, sum(groups))


def _atom(pattern: str, place: int) -> tuple[int, int]:
    """Return the weight of the atom that begins here, and the position behind it."""
    match pattern[place]:
        case "\\":
            end = pattern.find("}", place) + 1 if pattern[place + 1 : place + 3] in _BRACED else place + 2
            return _escaped(pattern[place + 1 : place + 2]), max(end, place + 2)
        case "[":
            end = _class_end(pattern, place)
            inside = pattern[place:end]
            return (
                _CLASS_WEIGHT if inside.isascii() and "\\" not in inside and "[:" not in inside else _SHORTHAND_WEIGHT
            ), end
        case ".":
            return _CLASS_WEIGHT, place + 1
        case sign:
            return (1 if sign.isascii() else _CLASS_WEIGHT), place + 1


def _escaped(sign: str) -> int:
    return _DIGIT_WEIGHT if sign in ("d", "s") else _SHORTHAND_WEIGHT if sign.isalpha() else 1


_BRACED = ("p{", "P{", "x{", "u{", "U{", "b{")


def _class_end(pattern: str, place: int) -> int:
    """Return the position behind the class that begins here; classes in Rust's syntax contain classes."""
    depth, begin = 0, place
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\":
            place += 1
        elif sign == "[":
            depth += 1
            begin = place + (2 if pattern[place + 1 : place + 2] == "^" else 1)
        elif sign == "]" and place != begin:
            depth -= 1
        place += 1
        if depth == 0:
            break
    return place


def _repeat_count(counted: re.Match[str]) -> int:
    """Return the larger number of `{n}`, `{n,}` or `{n,m}`; one more if it has no upper bound."""
    least, comma, most = counted.groups()
    return max(int(least) + bool(comma and not most), int(most or 0), 1)


# The engine may keep a few megabytes for each compiled pattern.
@lru_cache(maxsize=8)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])

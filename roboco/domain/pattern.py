"""Patterns: regular expressions of Rust's syntax, which no text can make slow."""

from functools import lru_cache
from typing import Annotated

from pydantic import StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaError


def check_pattern(pattern: str | None) -> str | None:
    """The pattern; ValueError if it is none."""
    try:
        _matcher(pattern or "")
    except SchemaError as error:
        told = " ".join(str(error).split()).rpartition("parse error: ")[2]
        raise ValueError(f"not a regular expression of Rust's syntax: {told}") from error
    return pattern


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found in the text."""
    try:
        _matcher(pattern).validate_python(text)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> TypeAdapter[str]:
    return TypeAdapter(Annotated[str, StringConstraints(pattern=pattern)])

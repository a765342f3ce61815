"""Tokens: how the tokens of a text are counted."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Tokens:
    """A way to count; `name` is the tokenizer's, or says that it is an estimate."""

    name: str
    count: Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """A rough count of tokens: one for each four bytes of UTF-8, rounded up."""
    return tokens_of(len(text.encode()))


def tokens_of(size: int) -> int:
    """A rough count of the tokens of so many bytes of UTF-8."""
    return -(-size // 4)


ESTIMATE = Tokens("estimate: one token for each four bytes", estimate_tokens)
IMAGE_TOKENS = 1000
"""What an image counts as: about what large models take for one of 1024 x 1024 pixels."""

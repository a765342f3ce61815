"""Tokenizers: functions that count the tokens of a text."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Tokenizer:
    """A function that counts tokens."""

    name: str
    """The name of the tokenizer, or a note that it is an estimate."""
    count: Callable[[str], int]


def estimate_tokens(text: str) -> int:
    """Return a rough count of tokens: one for each four bytes of UTF-8, rounded up."""
    return estimate_tokens_of_bytes(len(text.encode()))


def estimate_tokens_of_bytes(size: int) -> int:
    """Return a rough count of the tokens in this number of bytes of UTF-8."""
    return -(-size // 4)


ESTIMATING_TOKENIZER = Tokenizer("estimate: one token for each four bytes", estimate_tokens)
IMAGE_TOKENS = 1000
"""The number of tokens that an image counts as: about what large models use for 1024 x 1024 pixels."""

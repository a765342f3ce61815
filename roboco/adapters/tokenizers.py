"""Tokenizers: how the tokens of known models are counted, by `bpe-openai`, if it is installed."""

import importlib
import re
import warnings
from functools import lru_cache

from roboco.domain.tokens import ESTIMATE, Tokens

_ENCODINGS = (
    (re.compile(r"(gpt-(4o|4\.1|4\.5|5)|chatgpt-4o|o[1-9])([-.].*)?"), "o200k_base"),
    (re.compile(r"(gpt-4|gpt-3\.5)([-.].*)?"), "cl100k_base"),
)
"""Which models use which encoding, as OpenAI's tiktoken maps them (tiktoken/model.py)."""
KEPT = 4096
"""How many texts' counts are kept: a turn sends mostly what the one before sent."""


class KnownTokenizers:
    """Counts with the tokenizer of models that are known, and estimates for all others."""

    def of(self, model: str) -> Tokens:
        """How this model's tokens are counted."""
        name = next((encoding for known, encoding in _ENCODINGS if known.fullmatch(model)), None)
        return ESTIMATE if name is None else _tokens(name)


@lru_cache(maxsize=4)
def _tokens(name: str) -> Tokens:
    """The tokenizer of this name, which is loaded at its first use (0.2 s and 60 MB); the estimate without it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own files
            encoding = importlib.import_module("bpe_openai").get_encoding(name)
    except ImportError:  # an optional part: `roboco[tokenizers]`
        return ESTIMATE

    @lru_cache(maxsize=KEPT)
    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return Tokens(name, count)

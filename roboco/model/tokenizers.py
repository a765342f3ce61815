"""Tokenizers of known models, from `bpe-openai` if that is installed."""

import importlib
import re
import warnings
from functools import lru_cache

from roboco.domain.tokens import ESTIMATING_TOKENIZER, Tokenizer

_ENCODINGS = (
    (re.compile(r"(gpt-(4o|4\.1|4\.5|5)|chatgpt-4o|o[1-9])([-.].*)?"), "o200k_base"),
    (re.compile(r"(gpt-4|gpt-3\.5)([-.].*)?"), "cl100k_base"),
)
"""Models and their encodings, as in OpenAI's tiktoken (tiktoken/model.py)."""
MAX_CACHED_TEXTS = 4096
"""Texts whose counts are cached: a turn sends mostly the texts of the turn before."""


def tokenizer_of(model: str) -> Tokenizer:
    """Return this model's tokenizer if it is known, else a declared estimate."""
    name = next((encoding for known, encoding in _ENCODINGS if known.fullmatch(model)), None)
    return ESTIMATING_TOKENIZER if name is None else _tokens(name)


@lru_cache(maxsize=4)
def _tokens(name: str) -> Tokenizer:
    """Load the tokenizer of this name (0.2 s and 60 MB) and return its counter, or the estimate if it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about how the package reads its files
            encoding = importlib.import_module("bpe_openai").get_encoding(name)
    except ImportError:  # an optional extra: `roboco[tokenizers]`
        return ESTIMATING_TOKENIZER

    @lru_cache(maxsize=MAX_CACHED_TEXTS)
    def count(text: str) -> int:
        return len(encoding.encode_ordinary(text))

    return Tokenizer(name, count)

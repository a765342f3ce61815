"""A Redis whose disk is full, or that lacks replicas, is one that cannot be used now: work waits for it."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import redis

from roboco.adapters.redis.scripts import translating_errors, translating_write_refusals
from roboco.errors import TransientError

REFUSALS = (
    "MISCONF Errors writing to the AOF file: No space left on device",
    "NOREPLICAS Not enough good replicas to write.",
    "MISCONF Redis is configured to save RDB snapshots, but cannot. script: 4ab6, on @user_script:3.",
)


@pytest.mark.parametrize("answer", REFUSALS)
@pytest.mark.parametrize("translating", [translating_errors, translating_write_refusals])
def test_a_refusal_to_write_is_transient_and_names_its_remedy(
    translating: Callable[[], AbstractContextManager[None]], answer: str
) -> None:
    with (
        pytest.raises(TransientError, match=r"redis refuses writes: .*; check its disk and its replicas"),
        translating(),
    ):
        raise redis.ResponseError(answer)


def test_other_answers_are_no_refusal_to_write() -> None:
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"), translating_errors():
        raise redis.ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")

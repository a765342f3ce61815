"""Limits for single agents and tools, as a caller sends them."""

import pytest
from pydantic import ValidationError

from roboco.domain.limits import LimitOverrides


@pytest.mark.parametrize("field", ["agents", "tools"])
def test_a_name_that_is_too_long_is_one_mistake_whatever_is_below_it(field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        LimitOverrides.model_validate({field: {"a" * 65: {f"x{number}": 1 for number in range(1000)}}})
    assert refused.value.error_count() == 1
    assert "a name has at most 64 characters" in str(refused.value)


def test_a_name_of_64_characters_is_accepted() -> None:
    assert LimitOverrides.model_validate({"agents": {"a" * 64: {"max_steps": 1}}}).agents["a" * 64].max_steps == 1

"""ModelLimits: the operator's limits of a model, by its address and name."""

import pytest

from roboco.domain.team.model_profile import ModelLimit, ModelLimits, ModelProfile, parse_limit
from roboco.errors import UsageError


def test_an_entry_without_an_address_applies_to_the_workers_address() -> None:
    limits = ModelLimits(("m=1",), "http://127.0.0.1:8080/v1")
    assert limits.for_profile(ModelProfile(model="m")) == ModelLimit("m", "http://127.0.0.1:8080/v1", 1)
    assert limits.for_profile(ModelProfile(model="m", base_url="https://api.openai.com/v1")).requests is None


@pytest.mark.parametrize("entry", ["m", "m=", "m=/", "m=x", "m=1/x", "=1", "m=0", "m=5/0", "m@http://x/../y=1", "m=-1"])
def test_an_invalid_limit_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match=r"limit|address|allows"):
        parse_limit(entry)

"""ModelLimits: the operator's limits of a model, by its address and name."""

import pytest

from roboco.domain.team.model_limits import ModelLimit, ModelLimits, parse_limit
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import UsageError

ENTRIES = ("m=500/200000", "org/m:free@http://127.0.0.1:8080/v1=3", "at@20240229@http://127.0.0.1:8080/v1=/7")


@pytest.mark.parametrize(
    ("profile", "requests", "tokens"),
    [
        (ModelProfile(model="m"), 500, 200_000),
        (ModelProfile(model="m", base_url="https://api.openai.com/v1/"), 500, 200_000),
        (ModelProfile(model="m", base_url="http://127.0.0.1:8080/v1"), None, None),
        (ModelProfile(model="org/m:free", base_url="http://127.0.0.1:8080/v1/below"), 3, None),
        (ModelProfile(model="at@20240229", base_url="http://127.0.0.1:8080/v1"), None, 7),
        (ModelProfile(model="org/m:free"), None, None),
    ],
)
def test_a_model_has_the_limit_of_its_name_and_address(
    profile: ModelProfile, requests: int | None, tokens: int | None
) -> None:
    found = ModelLimits(ENTRIES).for_profile(profile)
    assert (found.requests, found.tokens) == (requests, tokens)


def test_an_entry_without_an_address_applies_to_the_workers_address() -> None:
    limits = ModelLimits(("m=1",), "http://127.0.0.1:8080/v1")
    assert limits.for_profile(ModelProfile(model="m")) == ModelLimit("m", "http://127.0.0.1:8080/v1", 1)
    assert limits.for_profile(ModelProfile(model="m", base_url="https://api.openai.com/v1")).requests is None


@pytest.mark.parametrize("entry", ["m", "m=", "m=/", "m=x", "m=1/x", "=1", "m=0", "m=5/0", "m@http://x/../y=1", "m=-1"])
def test_an_invalid_limit_is_refused(entry: str) -> None:
    with pytest.raises(UsageError, match=r"limit|address|allows"):
        parse_limit(entry)

"""Which model servers and keys a team may name."""

from typing import Any

import pytest

from roboco.adapters.model.allowlist import check_allowed
from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError

GROQ = "https://api.groq.com/openai/v1"
LOCAL = "http://llm_1:8080/v1"


@pytest.mark.parametrize(
    ("profile", "allowed", "own"),
    [
        ({}, (), None),
        ({}, (), LOCAL),
        ({}, (), "https://user:password@proxy.example.com/v1"),
        ({"api_key_env": "OPENAI_API_KEY"}, (), LOCAL),
        ({"base_url": LOCAL}, (), LOCAL),
        ({"base_url": LOCAL, "api_key_env": "OPENAI_API_KEY"}, (), LOCAL),
        ({"base_url": "https://api.openai.com/v1", "api_key_env": "OPENAI_API_KEY"}, (), None),
        ({"base_url": LOCAL}, (LOCAL,), None),
        ({"base_url": LOCAL}, ("http://llm_1:8080",), None),
        ({"base_url": GROQ}, (f"GROQ_KEY@{GROQ}",), None),
        ({"base_url": GROQ, "api_key_env": "GROQ_KEY"}, (LOCAL, f"GROQ_KEY@{GROQ}"), None),
        ({"base_url": GROQ, "api_key_env": "OPENAI_API_KEY"}, (f"OPENAI_API_KEY@{GROQ}",), None),
        ({"api_key_env": "SECOND_KEY"}, ("SECOND_KEY",), LOCAL),
    ],
)
def test_what_the_operator_named(
    profile: dict[str, Any], allowed: tuple[str, ...], own: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(own, monkeypatch)
    check_allowed(ModelProfile(model="m", **profile), allowed)


@pytest.mark.parametrize(
    ("profile", "allowed", "own", "entry"),
    [
        ({"base_url": LOCAL}, (), None, f"'{LOCAL}'"),
        ({"base_url": LOCAL}, (GROQ, "*", "", "http://", "@", "@http://llm_1"), None, f"'{LOCAL}'"),
        ({"base_url": "https://api.groq.com/openai/v1x"}, (GROQ,), None, "'https://api.groq.com/openai/v1x'"),
        ({"base_url": "https://api.groq.com.evil.example/"}, (GROQ,), None, "'https://api.groq.com.evil.example/'"),
        ({"base_url": "http://api.groq.com/openai/v1"}, (GROQ,), None, "'http://api.groq.com/openai/v1'"),
        ({"base_url": GROQ, "api_key_env": "GROQ_KEY"}, (GROQ, "GROQ_KEY"), None, f"'GROQ_KEY@{GROQ}'"),
        ({"base_url": GROQ, "api_key_env": "OPENAI_API_KEY"}, (GROQ,), None, f"'OPENAI_API_KEY@{GROQ}'"),
        ({"base_url": GROQ, "api_key_env": "OTHER"}, (f"GROQ_KEY@{GROQ}",), None, f"'OTHER@{GROQ}'"),
        ({"api_key_env": "GROQ_KEY"}, (f"GROQ_KEY@{GROQ}",), None, "'GROQ_KEY'"),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, (), LOCAL, "'AWS_SECRET_ACCESS_KEY'"),
        ({"base_url": "https://api.openai.com/v1"}, (), LOCAL, "'https://api.openai.com/v1'"),
    ],
)
def test_what_nobody_named(
    profile: dict[str, Any], allowed: tuple[str, ...], own: str | None, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(own, monkeypatch)
    with pytest.raises(ModelError) as refused:
        check_allowed(ModelProfile(model="m", **profile), allowed)
    assert (refused.value.code, refused.value.retryable) == ("not_allowed", False)
    assert f"name {entry} in ROBOCO_ALLOWED_MODEL_SERVERS" in str(refused.value)


@pytest.mark.parametrize("address", ["https://user:password@h/v1", "file:///etc/passwd", "http://h/v1/../admin", "h"])
def test_addresses_that_programs_read_in_different_ways(address: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        ModelProfile(model="m", base_url=address)


def named(own: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if own is None:
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    else:
        monkeypatch.setenv("OPENAI_BASE_URL", own)

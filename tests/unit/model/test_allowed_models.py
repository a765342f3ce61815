"""The model servers and keys that a team may name."""

from typing import Any

import pytest

from roboco.domain.team.model_profile import ModelProfile
from roboco.errors import ModelError
from roboco.model.allowlist import check_allowed, variables_for

GROQ_URL = "https://api.groq.com/openai/v1"
LOCAL_URL = "http://llm_1:8080/v1"
OPENAI_URL = "https://api.openai.com/v1"
BEDROCK_URL = "https://bedrock-runtime.us-east-1.amazonaws.com"
CRM = {"credential": "crm"}
Case = tuple[dict[str, Any], tuple[str, ...], str | None]
"""The profile, what the operator allows, and OPENAI_BASE_URL of the worker."""
ALLOWED: list[Case] = [
    ({}, (), None),
    ({}, (), "https://user:password@proxy.example.com/v1"),
    ({"base_url": LOCAL_URL, "api_key_env": "OPENAI_API_KEY"}, (), LOCAL_URL),
    ({"base_url": OPENAI_URL, "api_key_env": "OPENAI_API_KEY"}, (), None),
    ({"base_url": LOCAL_URL}, ("http://llm_1:8080",), None),
    ({"base_url": GROQ_URL}, (f"GROQ_KEY@{GROQ_URL}",), None),
    ({"base_url": GROQ_URL, "api_key_env": "GROQ_KEY"}, (LOCAL_URL, f"GROQ_KEY@{GROQ_URL}"), None),
    ({"base_url": GROQ_URL, "api_key_env": "OPENAI_API_KEY"}, (f"OPENAI_API_KEY@{GROQ_URL}",), None),
    ({"api_key_env": "SECOND_KEY"}, ("SECOND_KEY",), LOCAL_URL),
    ({"provider": "anthropic"}, ("ANTHROPIC_API_KEY",), LOCAL_URL),
    ({"provider": "mistral", "api_key_env": "OTHER"}, ("OTHER@https://api.mistral.ai",), None),
    ({"provider": "bedrock"}, (BEDROCK_URL,), None),
    ({"provider": "openai-responses"}, (), LOCAL_URL),
    ({"api_key": CRM}, (f"credential:crm@{LOCAL_URL}",), LOCAL_URL),
    ({"api_key": CRM, "base_url": GROQ_URL}, ("credential:crm@https://api.groq.com",), None),
]
REFUSED: list[tuple[Case, str]] = [
    (({"base_url": LOCAL_URL}, (GROQ_URL, "*", "", "http://", "@", "@http://llm_1"), None), LOCAL_URL),
    (({"base_url": "https://api.groq.com/openai/v1x"}, (GROQ_URL,), None), "https://api.groq.com/openai/v1x"),
    (({"base_url": "https://api.groq.com.evil.example/"}, (GROQ_URL,), None), "https://api.groq.com.evil.example/"),
    (({"base_url": "http://api.groq.com/openai/v1"}, (GROQ_URL,), None), "http://api.groq.com/openai/v1"),
    (({"base_url": GROQ_URL, "api_key_env": "GROQ_KEY"}, (GROQ_URL, "GROQ_KEY"), None), f"GROQ_KEY@{GROQ_URL}"),
    (({"base_url": GROQ_URL, "api_key_env": "OTHER"}, (f"GROQ_KEY@{GROQ_URL}",), None), f"OTHER@{GROQ_URL}"),
    (({"api_key_env": "GROQ_KEY"}, (f"GROQ_KEY@{GROQ_URL}",), None), "GROQ_KEY"),
    (({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, (), LOCAL_URL), "AWS_SECRET_ACCESS_KEY"),
    (({"base_url": OPENAI_URL}, (), LOCAL_URL), OPENAI_URL),
    (({"provider": "anthropic"}, ("OPENAI_API_KEY",), LOCAL_URL), "ANTHROPIC_API_KEY"),
    (
        ({"provider": "anthropic", "api_key_env": "OPENAI_API_KEY"}, (), None),
        "OPENAI_API_KEY@https://api.anthropic.com",
    ),
    (({"provider": "anthropic", "base_url": LOCAL_URL}, ("ANTHROPIC_API_KEY",), None), LOCAL_URL),
    (({"api_key": CRM}, ("credential:crm", "crm", "OPENAI_API_KEY"), None), f"credential:crm@{OPENAI_URL}"),
    (({"api_key": CRM}, (f"credential:other@{LOCAL_URL}", LOCAL_URL), LOCAL_URL), f"credential:crm@{LOCAL_URL}"),
    (({"api_key": CRM, "base_url": GROQ_URL}, (f"crm@{GROQ_URL}",), None), f"credential:crm@{GROQ_URL}"),
    (({"provider": "bedrock"}, (), None), BEDROCK_URL),
]
"""Each with the entry that would allow it."""


def refusal(case: Case, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the error, or "" if the profile is allowed."""
    profile, allowed, base_url_of_worker = case
    monkeypatch.setenv("OPENAI_BASE_URL", base_url_of_worker or "")
    try:
        check_allowed(ModelProfile(model="m", **profile), allowed)
    except ModelError as error:
        return f"{error.code}: {error}"
    return ""


def test_a_server_that_the_operator_allows_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found for case in ALLOWED if (found := refusal(case, monkeypatch))] == []


def test_a_server_that_the_operator_does_not_allow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {entry: refusal(case, monkeypatch) for case, entry in REFUSED}
    right = {entry: f"name {entry!r} in model_servers of ROBOCO_ALLOWLIST" for entry in found}
    wrong = {entry: text for entry, text in found.items() if right[entry] not in text}
    assert wrong == {}
    assert {text.partition(":")[0] for text in found.values()} == {"not_allowed"}


def test_a_credential_is_no_variable() -> None:
    assert variables_for(GROQ_URL, (f"credential:crm@{GROQ_URL}", f"GROQ_KEY@{GROQ_URL}")) == ["GROQ_KEY"]


@pytest.mark.parametrize("address", ["https://user:password@h/v1", "file:///etc/passwd", "http://h/v1/../admin", "h"])
def test_an_ambiguous_base_url_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        ModelProfile(model="m", base_url=address)

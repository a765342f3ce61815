"""Credentials: what the operator's function returns, once at a time, for a short time, and in no message."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from roboco.errors import TransientError, UsageError
from roboco.process import credential_mask, credentials
from roboco.process.credentials import MAX_BYTES, MAX_RUNNING_OF_TENANT, Credentials
from tests.support import tenant_credentials
from tests.support.stack import until
from tests.support.tenant_credentials import ASKED, VALUES, busy, sealed

FUNCTION = f"{tenant_credentials.__name__}:find"


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Credentials:
    monkeypatch.setattr(tenant_credentials, "VALUES", dict(VALUES))
    ASKED.clear()
    return Credentials(FUNCTION)


def returns(value: object, name: str = "crm") -> None:
    tenant_credentials.VALUES["acme", name] = value


def test_get_each_tenant_has_its_own_value(found: Credentials) -> None:
    got = [found.get(tenant, "crm") for tenant in ("acme", "globex", "")]
    assert got == ["canary-crm-of-acme", "canary-crm-of-globex", "canary-crm-of-no-tenant"]


def test_get_within_the_age_asks_once(found: Credentials, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [found.get("acme", "crm") for _ in range(3)] == ["canary-crm-of-acme"] * 3
    assert ASKED == [("acme", "crm")]
    monkeypatch.setattr(credentials, "MAX_AGE", 0.0)
    returns("canary-rotated")
    assert found.get("acme", "crm") == "canary-rotated"


def test_get_together_threads_share_one_call(found: Credentials) -> None:
    asked_once = threading.Event()
    returns(lambda: asked_once.wait(30) and "canary-late")
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(found.get, "acme", "crm") for _ in range(4)]
        until(lambda: ASKED, 30, "the function is called")
        asked_once.set()
        assert {one.result(30) for one in asked} == {"canary-late"}
    assert ASKED == [("acme", "crm")]


@pytest.mark.parametrize(
    ("value", "error", "cause"),
    [
        (None, UsageError, "there is none"),
        ("", UsageError, "there is none"),
        (b"canary", UsageError, "did not return a text"),
        ("x" * (MAX_BYTES + 1), UsageError, "did not return a text"),
        (KeyError("canary-key"), UsageError, "raised KeyError"),
        (sealed(), UsageError, "the vault of acme is sealed"),
        (busy(), TransientError, "the vault answers 503"),
        (ConnectionError("https://me:canary-password@vault"), TransientError, "raised ConnectionError"),
        (SystemExit(3), TransientError, "raised SystemExit"),
    ],
)
def test_get_a_failure_names_tenant_name_and_cause_alone(
    found: Credentials, value: Any, error: type[Exception], cause: str
) -> None:
    returns(value)
    with pytest.raises(error) as failed:
        found.get("acme", "crm")
    assert str(failed.value).startswith("credential 'crm' of tenant 'acme': ")
    assert cause in str(failed.value)
    assert "canary" not in repr(failed.value)
    assert failed.value.__context__ is None
    returns("canary-at-last")
    assert found.get("acme", "crm") == "canary-at-last"


@pytest.mark.parametrize("name", ["", "../crm", "a b", "x" * 65, "crm\n"])
def test_get_another_name_is_refused_before_the_function_is_called(found: Credentials, name: str) -> None:
    with pytest.raises(UsageError, match="no name of a credential"):
        found.get("acme", name)
    assert ASKED == []


def test_get_a_function_that_hangs_delays_each_caller_once_and_no_other_tenant(
    found: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "TIMEOUT", 0.1)
    over = threading.Event()
    for number in range(MAX_RUNNING_OF_TENANT + 1):
        returns(lambda: over.wait(60) and "canary-of-a-slow-vault", f"slow{number}")
    try:
        for number in range(MAX_RUNNING_OF_TENANT):
            with pytest.raises(TransientError, match=r"did not answer within 0\.1 s"):
                found.get("acme", f"slow{number}")
        with pytest.raises(TransientError, match="have not returned"):
            found.get("acme", f"slow{MAX_RUNNING_OF_TENANT}")
        assert found.get("globex", "crm") == "canary-crm-of-globex"
    finally:
        over.set()
    monkeypatch.setattr(credentials, "TIMEOUT", 60.0)
    assert found.get("acme", "slow0") == "canary-of-a-slow-vault"
    assert len(ASKED) == MAX_RUNNING_OF_TENANT + 1


def test_get_async_a_refused_value_is_asked_for_once_more(found: Credentials) -> None:
    async def ask(refused: str = "") -> str:
        return await found.get_async("acme", "crm", refused)

    old = asyncio.run(ask())
    returns("canary-rotated")
    assert asyncio.run(ask("another value")) == old
    assert [asyncio.run(ask(old)) for _ in range(2)] == ["canary-rotated"] * 2
    assert len(ASKED) == 2


def test_known_values_are_bounded_and_what_is_served_stays_masked(
    found: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MAX_KNOWN_OF_TENANT", 3)
    monkeypatch.setattr(credential_mask, "MAX_VALUES", 1)
    mask = found.mask_of("acme")
    for number in range(5):
        returns(f"canary-value-{number}", f"n{number}")
        found.get("acme", f"n{number}")
    values = [f"canary-value-{number}" for number in range(5)]
    assert [mask(value) for value in values] == ["canary-value-0", "***", "***", "***", "***"]
    monkeypatch.setattr(credentials, "MAX_KNOWN", 3)
    assert found.get("globex", "crm") == "canary-crm-of-globex"
    assert len(found._known) == 3


def test_mask_of_a_tenant_knows_no_value_of_another(found: Credentials) -> None:
    returns("\n".join(f"w{number:020d}" for number in range(700)), "large")
    returns("answer\nstatus\ncustomer", "words")
    held = found.get("globex", "crm")
    for name in ("large", "words"):
        found.get("acme", name)
    assert found.mask_of("globex")(held) == "***"
    shown = {"answer": 1, "status": 2, "crm": "canary-crm-of-acme"}
    assert found.mask_of("globex").mask_json(shown) == found.mask_of("acme").mask_json(shown) == shown


def test_mask_of_a_call_masks_what_it_got_although_the_process_has_forgotten_it(
    found: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask, held = found.mask_of("acme"), found.get("acme", "crm")
    monkeypatch.setattr(credentials, "MAX_KNOWN", 1)
    found.get("globex", "crm")
    assert mask(held) == found.mask_of("acme")(held) == "***"
    del mask
    assert found.mask_of("acme")(held) == held

"""The cookie of a browser: signed for one key, with an end, and without the key's secret."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roboco.domain.access_key import AccessKey
from roboco.domain.canonical_json import sha256
from roboco.gateway.session_cookie import cookie_name, is_valid, issue, key_id_of, set_cookie

SECRETS = ("a" * 32,)
KEY = AccessKey(id="abcdefgh", digest=sha256("secret"), created_at=datetime(2026, 1, 1, tzinfo=UTC))


def check(text: str, key: AccessKey = KEY, secrets: tuple[str, ...] = SECRETS, now: float = 1500) -> bool:
    """Return True if the text is a valid cookie."""
    return is_valid(text, key, secrets, now)


def test_a_cookie_is_valid_until_its_end() -> None:
    text = issue(KEY, SECRETS, 1000, 600)
    assert check(text)
    assert check(text, now=1599)
    assert not check(text, now=1600)
    assert KEY.digest not in text
    assert key_id_of(text) == KEY.id


def test_a_cookie_is_for_one_key() -> None:
    text = issue(KEY, SECRETS, 1000, 600)
    assert not check(text, KEY.model_copy(update={"digest": sha256("other")}))
    assert not check(text.replace("abcdefgh", "abcdefgi"), KEY.model_copy(update={"id": "abcdefgi"}))


def test_secrets_are_rotated() -> None:
    text = issue(KEY, SECRETS, 1000, 600)
    assert check(text, secrets=("b" * 32, *SECRETS))
    assert not check(text, secrets=("b" * 32,))
    assert not check(text, secrets=())


@given(st.integers(0, 100), st.characters(codec="ascii"))
def test_a_changed_cookie_is_invalid(place: int, character: str) -> None:
    text = issue(KEY, SECRETS, 1000, 600)
    at = place % len(text)
    changed = text[:at] + character + text[at + 1 :]
    assert check(changed) is (changed == text)


@pytest.mark.parametrize("text", ["", "v1", "v1.abcdefgh.1.2.", "v1.abcdefgh.١.2." + "0" * 64, "v1." * 1000])
def test_another_form_is_no_cookie(text: str) -> None:
    assert not check(text)
    assert key_id_of(text) is None


def test_the_cookie_needs_tls_except_on_loopback() -> None:
    assert set_cookie("gw.example", "x", 5) == (
        "__Host-roboco_session=x; Path=/; Max-Age=5; HttpOnly; SameSite=Strict; Secure"
    )
    assert set_cookie("[::1]", "x", 5) == "roboco_session=x; Path=/; Max-Age=5; HttpOnly; SameSite=Strict"
    assert cookie_name("localhost.evil.example") == "__Host-roboco_session"

"""The credential of a request: one key or token, in one form."""

import pytest

from roboco.domain.access_key import MAX_KEY_LENGTH, parse_key
from roboco.gateway.credentials import MAX_CREDENTIAL_BYTES, cookie_credential, header_credential
from roboco.gateway.problem import Problem

KEY = b"rbk_abcdefgh_" + b"0" * 64
TEXT = KEY.decode()
COOKIE = "roboco_session"


def found(*headers: tuple[bytes, bytes]) -> object:
    """Return the credential of these headers, or "refused"."""
    try:
        return header_credential(headers) or cookie_credential(headers, COOKIE)
    except Problem as problem:
        return "refused" if (problem.status, "rbk_" in problem.detail) == (401, False) else problem


@pytest.mark.parametrize("value", [b"Bearer " + KEY, b"bearer " + KEY, b"  BEARER   " + KEY + b"  "])
def test_a_bearer_key_is_found(value: bytes) -> None:
    assert found((b"authorization", value)) == TEXT


def test_the_other_header_is_found() -> None:
    assert found((b"x-api-key", KEY)) == TEXT
    assert found((b"x-api-key", KEY), (b"authorization", b"Bearer " + KEY)) == TEXT


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"Bearer ",
        b"Bearer " + KEY + b", Bearer " + KEY,
        b"Basic " + KEY,
        b"Bearer\t" + KEY,
        b"Bearer " + KEY + b"\r\nX: y",
        b"Bearer " + KEY + b"\x00",
        "Bearer rbk_äöü".encode(),
        b"Bearer " + b"a" * (MAX_CREDENTIAL_BYTES + 1),
    ],
)
def test_a_malformed_header_is_refused_also_beside_a_cookie(value: bytes) -> None:
    assert found((b"authorization", value)) == "refused"
    assert found((b"authorization", value), (b"cookie", b"roboco_session=v1.x")) == "refused"


def test_two_credentials_are_refused() -> None:
    other = KEY.replace(b"abc", b"xyz")
    assert found((b"authorization", b"Bearer " + KEY), (b"authorization", b"Bearer " + KEY)) == "refused"
    assert found((b"authorization", b"Bearer " + KEY), (b"x-api-key", other)) == "refused"
    assert found((b"x-api-key", KEY), (b"x-api-key", KEY)) == "refused"
    assert found((b"cookie", b"roboco_session=a; x=y; roboco_session=b")) == "refused"
    assert found((b"cookie", b"roboco_session=a"), (b"cookie", b"roboco_session=b")) == "refused"


def test_a_cookie_is_found_by_its_exact_name() -> None:
    assert found((b"cookie", b"a=b; roboco_session=v1.x; c")) == "v1.x"
    assert found((b"cookie", b"__Host-roboco_session=v1.x; xroboco_session=1; Roboco_Session=2")) is None
    assert found() is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "rbk_abcdefgh_",
        "rbk_ABCDEFGH_" + "0" * 64,
        "rbk_../../x_" + "0" * 64,
        "rbk_abcdefgh_" + "0" * 64 + "\n",
        "rbk_abcdefgh_" + "٠" * 64,
        "rbk_ａｂｃｄｅｆｇｈ_" + "0" * 64,
        "rbk_abcdefgh_" + "0" * MAX_KEY_LENGTH,
        " rbk_abcdefgh_" + "0" * 64,
    ],
)
def test_a_text_in_another_form_is_no_key(text: str) -> None:
    assert parse_key(text) is None

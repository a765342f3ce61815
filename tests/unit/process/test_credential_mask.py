"""CredentialMask: every form of a value is replaced, nothing else, in a text, in JSON and in bytes."""

import base64
import json
import urllib.parse

import pytest

from roboco.process.credential_mask import MAX_LINES, CredentialMask

QUOTED = "pa'ss\\word\"-98765"


def mask_of(*values: str) -> CredentialMask:
    mask = CredentialMask()
    for value in values:
        mask.remember(value, frozenset())
    return mask


@pytest.mark.parametrize(
    "text",
    [
        QUOTED,
        repr(QUOTED),
        repr({"key": QUOTED}),
        str(KeyError(QUOTED)),
        json.dumps({"key": QUOTED}),
        json.dumps({"key": QUOTED}, ensure_ascii=False),
        repr(QUOTED + "'"),
    ],
)
def test_mask_a_value_is_replaced_in_each_form(text: str) -> None:
    assert "word" not in mask_of(QUOTED)(text)


@pytest.mark.parametrize("secret", ["canary-s3cr3t", "canary+with/odd?bytes=é", "Bearer sk-canary-1234"])
@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "@", ":x"])
def test_mask_a_value_is_replaced_as_base64_and_in_a_url(secret: str, before: str, after: str) -> None:
    mask, bare = mask_of(secret), secret.removeprefix("Bearer ")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        packed = encode(f"{before}{bare}{after}".encode()).decode()
        left = len(before) * 4 // 3 + 1, (len(after) * 4 + 2) // 3 + 3
        kept, masked, rest = mask(f"Basic {packed}").removeprefix("Basic ").partition("***")
        assert (masked, len(kept) <= left[0], len(rest) <= left[1]) == ("***", True, True)
    for quote in (urllib.parse.quote, urllib.parse.quote_plus, lambda text: urllib.parse.quote(text, safe="")):
        assert mask(f"https://host/?key={quote(bare)}&x=1") == "https://host/?key=***&x=1"


def test_mask_a_whole_header_is_also_replaced_without_its_scheme() -> None:
    mask = mask_of("Bearer sk-canary")
    assert mask("got Bearer sk-canary, but sk-canary is revoked") == "got ***, but *** is revoked"


def test_mask_the_long_lines_of_a_value_are_replaced_up_to_a_number() -> None:
    lines = [f"canary-{number:020d}" for number in range(MAX_LINES + 1)]
    mask = mask_of("\n".join(["status", *lines, ""]))
    assert [mask(line) for line in ("status", *lines)] == ["status", *["***"] * MAX_LINES, lines[-1]]
    assert mask_of("canary\n")("a canary") == "a ***"


def test_mask_json_a_key_is_replaced_and_no_value_lost() -> None:
    mask = mask_of("canary-a", "canary-b", QUOTED)
    shown = mask.mask_json({"canary-a": 1, "canary-b": [{"x": "canary-a"}, None], "c": f"<{QUOTED}>"})
    assert shown == {"***": 1, "****": [{"x": "***"}, None], "c": "<***>"}


def test_mask_bytes_a_value_is_replaced() -> None:
    assert mask_of("canary-a").mask_bytes(b"\xff canary-a") == b"\xff ***"

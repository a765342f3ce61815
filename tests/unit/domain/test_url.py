"""URLs of servers: an ambiguous one is refused, and an entry of an allowlist covers only URLs below it."""

import pytest

from roboco.domain.log_text import MAX_PROCESSED_CHARS, log_text
from roboco.domain.url import covers, strip_credentials, url_error

ENTRY = "https://h.example/team"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://h.example/team/..;/admin", "'.' or '..'"),
        ("https://h.example/team/..;x=1/admin", "'.' or '..'"),
        ("https://h.example/team/.;/admin", "'.' or '..'"),
        ("https://h.example/team/../admin", "'.' or '..'"),
        ("https://h.example/team/%2e%2e;/admin", "'%2e'"),
        ("https://h.example/team/%c0%ae%c0%ae/admin", "no UTF-8"),
        ("https://h.example/team/..%20/admin", "'.' or '..'"),
        ("https://h.example/team/.%2E/admin", "'%2E'"),
        ("https://h.example/team/..%3b/admin", "'%3b'"),
        ("https://h.example/team/%00", "'%00'"),
        ("https://h.example/team/%0d%0a", "'%0d'"),
        ("https://h.example/team/%7f", "'%7f'"),
        ("https://h.example/team//admin", "'//'"),
        ("https://h.example//team", "'//'"),
        ("https://h.example/team/..\\admin", "must be"),
        ("https://h.example/team/..%5cadmin", "'%5c'"),
        ("https://h.example/team/..%2Fadmin", "'%2F'"),
        ("https://h.example/team/%252e%252e/admin", "'%25'"),
        ("https://h.example/team/%u002e", "'%u0'"),
        ("https://h.example/team/%", "'%'"),
        ("https://user@h.example/team", "must be"),
        ("https://h.example@evil.example/team", "must be"),
        ("https://h.example/team#part", "must be"),
        ("https://[fe80::1%25eth0]/team", "must be"),
        ("https://[fe80::1%eth0]/team", "must be"),
        ("https://[::1.2]/team", "IPv6 address"),
        ("https://h.example./team", "empty part"),
        ("https://.h.example/team", "empty part"),
        ("https://h..example/team", "empty part"),
        ("https://h.example:/team", "must be"),
        ("https://h.example:0/team", "port 0"),
        ("https://h.example:65536/team", "port 65536"),
        ("https://2130706433/team", "a number"),
        ("https://0x7f.1/team", "a number"),
        ("https://0x7f000001/team", "a number"),
        ("https://127.1/team", "a number"),
        ("https://127.0.0.01/team", "a number"),
        ("https://münchen.example/team", "must be"),
        ("https://h。example/team", "must be"),
        ("HTTPS://h.example/team", "must be"),
        ("ftp://h.example/team", "must be"),
        ("h.example", "must be"),
        ("https://", "must be"),
        ("https:///team", "must be"),
        ("https://h.example /team", "must be"),
        ("https://h.example/team\n", "must be"),
    ],
)
def test_an_ambiguous_url_is_refused(url: str, reason: str) -> None:
    assert reason in url_error(url)
    assert not covers(ENTRY, url)
    assert not covers(url, url)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        (ENTRY, ENTRY),
        (ENTRY, f"{ENTRY}/"),
        (ENTRY, f"{ENTRY}/deep/er;v=1?a=b%20c"),
        (ENTRY, "https://h.example:443/team"),
        (ENTRY, "https://H.EXAMPLE/team"),
        ("https://xn--mnchen-3ya.example/team", "https://xn--mnchen-3ya.example/team/a"),
        ("https://[2001:db8::1]/", "https://[2001:DB8:0::1]:443/a"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
    ],
)
def test_an_entry_covers_urls_below_it(entry: str, url: str) -> None:
    assert (url_error(entry), url_error(url)) == ("", "")
    assert covers(entry, url)


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("redis://:pw@h1;redis://:pw@h2", "redis://***@h1;redis://***@h2"),
        ("at amqp://u:pw@h1//, and", "at amqp://***@h1//, and"),
        ("redis://h1:6379/0;redis://:p@w@h2/0?x=1,amqp://h3", "redis://h1:6379/0;redis://***@h2/0?x=1,amqp://h3"),
        ("redis://:p;w@a,b@h1;redis://h2", "redis://***@h1;redis://h2"),
        ("redis://:p/w;redis://x@h", "redis://***@h"),
        ("redis+cluster://u:pw@one:7000,two:7001", "redis+cluster://***@one:7000,two:7001"),
        ("me@here;redis://h", "me@here;redis://h"),
    ],
)
def test_credentials_are_stripped_from_each_url(text: str, stripped: str) -> None:
    assert strip_credentials(text) == stripped


def test_a_password_across_the_length_limit_is_stripped() -> None:
    for length in range(MAX_PROCESSED_CHARS - 30, MAX_PROCESSED_CHARS + 5):
        assert "cana" not in log_text(f"{'x' * length} redis://u:canary@h", MAX_PROCESSED_CHARS)


@pytest.mark.parametrize("url", ["https://h.example/teams", "https://h.example/TEAM", "https://h.example:8443/team"])
def test_an_entry_does_not_cover_urls_beside_it(url: str) -> None:
    assert not covers(ENTRY, url)

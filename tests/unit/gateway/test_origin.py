"""Requests that another web page causes are refused; those of programs and of the gateway's own pages pass."""

from typing import Any

import pytest

from roboco.gateway.origin import check_host, check_origin
from roboco.gateway.problem import Problem


def scope(method: str = "POST", client: str = "127.0.0.1", **headers: str) -> dict[str, Any]:
    """Return the scope of a request; `_` in a name is `-`."""
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http", "method": method, "headers": pairs, "client": (client, 1)}


def is_refused(request: dict[str, Any], **options: Any) -> bool:
    """Return True if the origin of the request is refused."""
    try:
        check_origin(request, **options)
    except Problem as problem:
        return problem.status == 403
    return False


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, False),
        ({"sec_fetch_site": "same-origin", "origin": "http://localhost:1", "host": "localhost:1"}, False),
        ({"sec_fetch_site": "cross-site", "origin": "https://evil.example", "host": "localhost"}, True),
        ({"origin": "http://localhost:2", "host": "localhost:1"}, True),
        ({"origin": "http://localhost:1", "host": "localhost:1"}, False),
        ({"origin": "https://gw.example", "host": "gw.example:443"}, False),
        ({"origin": "http://gw.example", "host": "gw.example:443"}, True),
        ({"origin": "ftp://gw.example", "host": "gw.example"}, True),
        ({"origin": "null", "host": "localhost"}, True),
        ({"origin": "http://localhost.evil.example", "host": "localhost"}, True),
        ({"origin": "http://[::1", "host": "[::1]"}, True),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}, True),
    ],
)
def test_writes_of_other_origins_are_refused(headers: dict[str, str], expected: bool) -> None:
    assert is_refused(scope(**headers)) is expected


def test_a_link_may_be_followed_but_a_cross_site_read_is_refused() -> None:
    assert not is_refused(scope("GET", sec_fetch_site="cross-site", sec_fetch_mode="navigate"))
    assert is_refused(scope("GET", sec_fetch_site="cross-site", sec_fetch_mode="cors"))


def test_two_values_of_a_header_match_nothing() -> None:
    request = scope("GET", sec_fetch_site="same-origin")
    request["headers"].append((b"sec-fetch-site", b"cross-site"))
    assert is_refused(request)


def test_a_cookie_without_proof_of_its_origin_may_only_read() -> None:
    assert is_refused(scope(host="gw"), needs_proof=True)
    assert not is_refused(scope("GET", host="gw"), needs_proof=True)
    assert not is_refused(scope(host="gw", origin="https://gw"), needs_proof=True)
    assert not is_refused(scope(host="gw", sec_fetch_site="same-origin"), needs_proof=True)


def test_allowed_origins_pass() -> None:
    request = scope(host="gw", origin="https://shop.example", sec_fetch_site="cross-site")
    assert not is_refused(request, allowed=("https://shop.example",))
    assert is_refused(request, allowed=("https://shop.example.org",))


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8080", "127.9.9.9", "[::1]:80", "gw.example"])
def test_without_authentication_names_of_this_machine_pass(host: str) -> None:
    check_host(scope(host=host), ("gw.example",), local_only=True)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "10.0.0.1", "::1"])
def test_without_authentication_other_names_are_refused(host: str) -> None:
    with pytest.raises(Problem):
        check_host(scope(host=host), (), local_only=True)


def test_no_host_or_two_are_refused() -> None:
    twice = scope(host="localhost")
    twice["headers"].append((b"host", b"evil.example"))
    for request in (scope(), twice):
        with pytest.raises(Problem):
            check_host(request, (), local_only=True)


def test_without_authentication_other_machines_are_refused() -> None:
    with pytest.raises(Problem):
        check_host(scope(client="192.0.2.1", host="localhost"), (), local_only=True)
    check_host(scope(client="::1", host="localhost"), (), local_only=True)


def test_with_authentication_each_name_passes_unless_some_are_listed() -> None:
    check_host(scope(client="192.0.2.1", host="any.example"), (), local_only=False)
    with pytest.raises(Problem):
        check_host(scope(host="any.example"), ("gw.example",), local_only=False)
    with pytest.raises(Problem):
        check_host(scope(host="localhost"), ("gw.example",), local_only=False)


@pytest.mark.parametrize(
    "hosts", [[], [""], ["a b"], ["gw.example", "evil.example"], ["gw.example/x"], ["a@b"], ["a:80@b"]]
)
def test_a_malformed_host_is_refused_whatever_names_are_allowed(hosts: list[str]) -> None:
    request = {"method": "GET", "headers": [(b"host", host.encode()) for host in hosts], "client": ("127.0.0.1", 1)}
    with pytest.raises(Problem, match="one header Host"):
        check_host(request, (), local_only=False)

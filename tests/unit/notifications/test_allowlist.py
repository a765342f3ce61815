"""The addresses that a webhook may reach without permission of the operator."""

from roboco.errors import Forbidden
from roboco.notifications.allowlist import allowed_address

PRIVATE_ADDRESSES = {
    "this host": ["0.0.0.0", "0.1.2.3", "::", "127.0.0.1", "127.255.0.1", "::1"],
    "private": ["10.1.2.3", "172.16.0.1", "192.168.1.1", "fc00::1", "fd12::1"],
    "link-local": ["169.254.169.254", "fe80::1"],
    "site-local": ["fec0::1", "feff::1"],
    "carrier": ["100.64.0.1", "100.127.255.254"],
    "protocol assignments": ["192.0.0.1", "192.0.0.9", "192.0.0.10", "192.0.0.170", "2001:1::1", "2001:20::1"],
    "6to4": ["192.88.99.1", "2002:0a01:0203::1", "2002:808:808::1"],
    "Teredo": ["2001::1", "2001:0:808:808::1"],
    "NAT64": ["64:ff9b::10.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1"],
    "mapped": ["::ffff:10.0.0.1", "::ffff:127.0.0.1", "::ffff:192.0.0.9", "::ffff:100.64.0.1"],
    "compatible": ["::10.0.0.1", "::8.8.8.8"],
    "benchmarking": ["198.18.0.1", "198.19.255.1", "2001:2::1"],
    "documentation": ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
    "multicast": ["224.0.0.1", "239.1.1.1", "ff02::1", "ff0e::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "100::1", "5f00::1"],
}


def is_allowed(host: str) -> bool:
    try:
        return allowed_address(host, 443, ("https://hooks.example/",)) == host
    except Forbidden:
        return False


def test_only_public_addresses_and_networks_that_the_operator_names_are_reached() -> None:
    assert [host for hosts in PRIVATE_ADDRESSES.values() for host in hosts if is_allowed(host)] == []
    assert all(map(is_allowed, ("8.8.8.8", "192.0.1.1", "2606:4700::1111", "2a00:1450::1")))
    assert allowed_address("64:ff9b::8.8.8.8", 443, ("64:ff9b::/96",)) == "64:ff9b::808:808"

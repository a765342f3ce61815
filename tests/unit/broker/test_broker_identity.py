"""Whether two URLs address the same broker."""

import pytest

from roboco.broker.broker_identity import same_broker


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("redis://h", "rediss://user:pass@H:6379/0?ssl_cert_reqs=none", True),
        ("redis://localhost/1", "redis://127.0.0.1:6379/1", True),
        ("redis://h/0", "redis://h/1", False),
        ("redis://h/0", "redis://h:6380/0", False),
        ("redis://h/0", "amqp://h//", False),
        ("amqp://", "pyamqp://guest:**@127.0.0.1:5672//", True),
        ("amqp://h/%2F", "amqp://h", True),
        ("amqp://h/shop", "amqp://h/roboco", False),
        ("sentinel://a:26379;sentinel://b:26379", ["sentinel://b:26379", "sentinel://c:26379"], True),
        ("redis://h:no-port/0", "amqp://h", True),
        ("", "amqp://h", True),
        ("redis://:p,w@h/1", "redis://h/2", False),
        ("redis://:pw@h1;redis://:pw@h2", "redis://h1", True),
        ("redis://:pw@h1,redis://:p@w@h2", "redis://h2", True),
        ("amqp://h1,h2", "amqp://h2", True),
        ("amqp://h/a@b", "amqp://other/a@b", False),
    ],
)
def test_same_broker_compares_the_servers_of_two_urls(one: str, other: str | list[str], same: bool) -> None:
    assert same_broker(one, other) is same
    assert same_broker(other, one) is same

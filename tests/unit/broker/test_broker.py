"""The settings of Celery that each kind of broker needs."""

import pytest
from kombu import transport as transport_of_kombu

from roboco.broker.app import app_settings, create_app
from roboco.broker.broker import broker_settings, producer_settings
from roboco.broker.broker_fault import write_fault
from roboco.broker.transport import SentinelTransport, Transport
from roboco.errors import UsageError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("rediss://u:p%40@host/0", "rediss://u:p%40@host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=/a.pem", "rediss://host/0?ssl_ca_certs=%2Fa.pem&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
    ],
)
def test_a_tls_broker_is_verified_unless_the_url_disables_it(url: str, expected: str) -> None:
    assert broker_settings(url)["broker_url"] == expected
    with pytest.raises(UsageError, match="required, optional, none"):
        broker_settings("rediss://host/0?ssl_cert_reqs=perhaps")


KOMBUS_TRANSPORTS = {
    "redis": "kombu.transport.redis:Transport",
    "rediss": "kombu.transport.redis:Transport",
    "sentinel": "kombu.transport.redis:SentinelTransport",
    "amqp": "kombu.transport.pyamqp:Transport",
}


@pytest.mark.parametrize(
    ("url", "transport"),
    [
        ("redis://host/0", Transport),
        ("rediss://host/0", Transport),
        ("sentinel://a:1;sentinel://b:2", SentinelTransport),
        ("amqp://host", None),
    ],
)
def test_a_producer_reuses_its_clients_of_redis_and_other_applications_keep_kombus(
    url: str, transport: type[object] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another test of this process may have guarded all of its connections, as a worker does.
    monkeypatch.setattr(transport_of_kombu, "TRANSPORT_ALIASES", KOMBUS_TRANSPORTS)
    monkeypatch.setattr(transport_of_kombu, "_transport_cache", {})
    settings = app_settings(url)
    own, others = create_app(settings | producer_settings(url)), create_app(settings)
    kept = others.connection_for_write().get_transport_cls()
    used = own.connection_for_write().get_transport_cls()
    assert used is (transport or kept)
    assert kept.__module__.startswith("kombu.")


def test_a_broker_that_refuses_connections_is_a_fault_with_a_remedy() -> None:
    with create_app(app_settings("amqp://127.0.0.1:1//")) as app:
        assert write_fault(app).endswith(
            "Connection refused; check ROBOCO_BROKER_URL (or ROBOCO_REDIS_URL, if that is not set)"
        )

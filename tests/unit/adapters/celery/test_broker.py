"""What each kind of broker needs of Celery's settings."""

import pytest
from celery import Celery

from roboco.adapters.celery.app import app_settings, create_app
from roboco.adapters.celery.broker import broker_settings
from roboco.errors import UsageError


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("rediss://u:p%40@host/0", "rediss://u:p%40@host/0?ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_ca_certs=/a.pem", "rediss://host/0?ssl_ca_certs=%2Fa.pem&ssl_cert_reqs=required"),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
    ],
)
def test_who_answers_through_tls_is_checked_unless_that_is_refused(url: str, asked: str) -> None:
    assert broker_settings(url)["broker_url"] == asked


@pytest.mark.parametrize("scheme", ["redis+cluster", "rediss+cluster"])
def test_a_cluster_is_no_broker(scheme: str) -> None:
    with pytest.raises(UsageError, match="set ROBOCO_BROKER_URL"):
        broker_settings(f"{scheme}://host:7000")


def test_what_a_certificate_check_may_be_is_told() -> None:
    with pytest.raises(UsageError, match="required, optional, none"):
        broker_settings("rediss://host/0?ssl_cert_reqs=perhaps")


def test_applications_of_others_send_beside_ours() -> None:
    """In one process: kombu has one limit for the connections of all."""
    ours, others = create_app(app_settings("memory://")), Celery("shop", broker="memory://", set_as_current=False)
    with ours.pool.acquire(), others.pool.acquire():
        assert ours.pool.limit == others.pool.limit

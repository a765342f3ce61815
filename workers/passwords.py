"""passwords: a worker whose Redis or RabbitMQ refuses its password ends, instead of trying for ever."""

from typing import Any

from amqp.exceptions import AccessRefused, AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisClusterException, RedisError

from roboco.adapters.redis.client import connect_briefly
from roboco.adapters.redis.refusal import SETTING, refusal
from roboco.settings import Settings

RABBIT_REFUSES = (
    "RabbitMQ refuses the user or password in ROBOCO_BROKER_URL: correct it, and write "
    "amqp://USER:PASSWORD@HOST:PORT/VHOST, with each '/', '#', '?', ':', '@' and '%' of the password as %XX"
)
"""The error if RabbitMQ refuses the credentials of the broker's URL, and its remedy."""


def check_passwords(app: Celery, settings: Settings, **_: Any) -> None:
    """Exit before the worker takes work if a server refuses its password.

    If a server does not answer, the worker starts and waits for it.
    """
    try:
        with connect_briefly(settings.redis_url) as client:
            client.ping()
    except (RedisError, RedisClusterException, OSError) as error:
        _end_if_refused(error, SETTING)
    try:
        with app.connection_for_write() as broker:
            broker.connect()
    except AccessRefused as error:
        raise SystemExit(f"this worker ends: {RABBIT_REFUSES}") from error
    except (AMQPError, KombuError, RedisError, OSError) as error:
        _end_if_refused(error, SETTING if settings.broker_url is None else "ROBOCO_BROKER_URL")


def _end_if_refused(error: Exception, setting: str) -> None:
    if refused := refusal(error, setting):
        raise SystemExit(f"this worker ends: {refused}") from error

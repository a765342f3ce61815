"""credentials: a worker whose Redis or RabbitMQ refuses its password ends, instead of trying for ever."""

from typing import Any

from amqp.exceptions import AccessRefused, AMQPError
from celery import Celery
from kombu.exceptions import KombuError
from redis.exceptions import RedisClusterException, RedisError

from roboco.broker.broker_error import RABBITMQ_REFUSED
from roboco.redis.client import connect_fail_fast
from roboco.redis.server_error import REDIS_URL_SETTING, find_refusal
from roboco.settings import Settings


def check_credentials(app: Celery, settings: Settings, **_: Any) -> None:
    """Exit before the worker takes work if a server refuses its password.

    If a server does not answer, the worker starts and waits for it.
    """
    try:
        with connect_fail_fast(settings.redis_url) as client:
            client.ping()
    except (RedisError, RedisClusterException, OSError) as error:
        _exit_if_refused(error, REDIS_URL_SETTING)
    try:
        with app.connection_for_write() as broker:
            broker.connect()
    except AccessRefused as error:
        raise SystemExit(f"this worker ends: {RABBITMQ_REFUSED}") from error
    except (AMQPError, KombuError, RedisError, OSError) as error:
        _exit_if_refused(error, REDIS_URL_SETTING if settings.broker_url is None else "ROBOCO_BROKER_URL")


def _exit_if_refused(error: Exception, setting: str) -> None:
    if refused := find_refusal(error, setting):
        raise SystemExit(f"this worker ends: {refused}") from error

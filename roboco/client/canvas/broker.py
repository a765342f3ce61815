"""The broker of a shop's own application: Roboco's coordinators send the messages that continue a canvas to it."""

import logging
from functools import partial
from typing import Any

from celery import Celery
from celery.signals import celeryd_after_setup

from roboco.broker.broker_identity import same_broker
from roboco.domain.url import strip_credentials
from roboco.settings import Settings, load_settings

_log = logging.getLogger(__name__)


def broker_of(app: Celery) -> str:
    """Return the address of the broker from which the application's workers consume, without users and passwords."""
    return strip_credentials(_addresses(app))


def _addresses(app: Celery) -> str:
    connection: Any = app.connection_for_read()
    return ";".join(connection.alt or [connection.as_uri(include_password=True)])


def broker_mistake(app: Celery, settings: Settings) -> str:
    """Return why no worker of the application would get the message that continues its canvas, or "" if one would."""
    own, callback = _addresses(app), settings.callback_broker_url or settings.broker
    if same_broker(own, callback):
        return ""
    return (
        f"a canvas would not continue after its team: this application's broker is {broker_of(app)}, and Roboco would "
        f"send to {strip_credentials(callback)}. Set ROBOCO_CALLBACK_BROKER_URL to the address of this application's "
        "broker, for Roboco's coordinators and for the workers of this application. If both addresses are names of one "
        "broker, set it for the workers of this application to the first"
    )


def warn_of_broker(app: Celery, settings: Settings | None) -> None:
    """Log an error when a worker of the application starts whose broker Roboco does not know."""
    celeryd_after_setup.connect(partial(_warn, app, settings), weak=False)


def _warn(app: Celery, settings: Settings | None, instance: Any, **_: Any) -> None:
    if instance.app is app and (mistake := broker_mistake(app, settings or load_settings())):
        _log.error("%s", mistake)

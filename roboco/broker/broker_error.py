"""broker_error: the causes and remedies of a broker's errors. None of them is final: a broker is tried again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from amqp.exceptions import AccessRefused, AMQPError, NotAllowed, PreconditionFailed, ResourceError
from kombu.exceptions import KombuError
from redis import exceptions as redis_exceptions

from roboco.errors import TransientError
from roboco.redis.server_error import BROKER_URL_SETTING, explain


class ScriptsMissing(redis_exceptions.ConnectionError):
    """The broker does not hold kombu's scripts, and this worker may not load them.

    Kombu and Celery treat it like a broker that does not answer: they try again.
    """


BROKER_ERRORS: Final = (KombuError, AMQPError, redis_exceptions.RedisError, OSError)
"""The classes of all errors of a broker."""
RABBITMQ_REFUSED: Final = (
    "RabbitMQ refuses the user or password in ROBOCO_BROKER_URL: correct it, and write "
    "amqp://USER:PASSWORD@HOST:PORT/VHOST, with each '/', '#', '?', ':', '@' and '%' of the password as %XX"
)
"""The error if RabbitMQ refuses the credentials of the broker's URL, and its remedy."""
_REMEDIES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (AccessRefused, "give the user of {setting} the rights to configure, write and read in its virtual host"),
    (NotAllowed, "see the limits, the permissions and the state of the virtual host of {setting}"),
    (PreconditionFailed, "see its log: if a queue has other arguments, let it run empty and delete it"),
    (ResourceError, "see its alarms and limits: rabbitmq-diagnostics alarms"),
)


def explain_broker(error: BaseException, setting: str = BROKER_URL_SETTING) -> str:
    """Return the problem that an error of the broker reports, with its remedy. Kombu may have wrapped the error."""
    for found in (error, error.__cause__):
        if isinstance(found, ScriptsMissing):
            return str(found)
        if isinstance(found, redis_exceptions.RedisError):
            return str(explain(found, setting))
        for kind, remedy in _REMEDIES:
            if isinstance(found, kind):
                return f"RabbitMQ refuses: {found}; {remedy.format(setting=setting)}"
    return f"{error}; check {setting}"


@contextmanager
def translating_errors(name: str, setting: str = BROKER_URL_SETTING) -> Iterator[None]:
    """Raise TransientError in place of the errors of a broker that does not accept the message `name`.

    `setting` names the address of that broker.
    """
    try:
        yield
    except BROKER_ERRORS as error:
        raise TransientError(f"the broker does not take {name!r}: {explain_broker(error, setting)}") from error

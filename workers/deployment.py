"""deployment: a worker does not run beside another deployment whose messages or streams would be mixed with its own.

    broker        one deployment for each database of Redis or virtual host: the names of queues are fixed
    Redis         the databases of a server share their channels: one deployment for each prefix

Both are checked at the start of each worker. The broker is checked again later, because it may not have answered then,
or may have lost its record.
"""

import logging
from collections.abc import Callable
from typing import Final

from celery import Celery
from celery.worker import state

from roboco.broker.broker_owner import Deployment, ForeignBroker, check_broker_owner, claim_broker
from roboco.errors import TransientError, UsageError
from roboco.redis.client import connect_fail_fast
from roboco.redis.keys import Keys
from roboco.redis.scripts import translating_errors
from roboco.redis.shared_channels import find_shared_channels
from roboco.settings import Settings

CLAIM_INTERVAL: Final = 20.0
"""Seconds between two claims of the broker, which restore the record of a broker that was emptied."""
_EXIT_FAILURE: Final = 1
_Deployments = tuple[Deployment, Deployment | None]

_log = logging.getLogger(__name__)


def check_channels(settings: Settings) -> None:
    """Raise UsageError if a deployment in another database of this Redis has the same prefix, and so the same channels.

    TransientError if Redis does not answer.
    """
    with translating_errors(), connect_fail_fast(settings.redis_url) as client:
        found = find_shared_channels(client, Keys(settings.prefix))
    if found is not None and not found.has_priority:
        raise UsageError(str(found))
    if found is not None:
        _log.error("%s", found)


class BrokerClaim:
    """Keeps the record that the broker carries the messages of this deployment, or only reads it.

    `deployments` returns this deployment and its earlier form, or None while the workspace does not answer. With
    `writes`, the worker is a coordinator: no other pool may end the workers of all pools by a false record.
    """

    def __init__(self, app: Celery, deployments: Callable[[], _Deployments | None], writes: bool) -> None:
        self._app = app
        self._deployments = deployments
        self._writes = writes

    def __call__(self) -> None:
        """Claim or check the broker. Raise ForeignBroker if it is another deployment's."""
        known = self._deployments()
        if known is None:
            return
        own, earlier = known
        try:
            if self._writes:
                claim_broker(self._app, own, earlier)
            else:
                check_broker_owner(self._app, lambda: own, earlier)
        except TransientError as error:
            _log.warning("whether another deployment uses this broker is not known: %s", error)

    def repeat(self) -> bool:
        """Claim the broker again; end the worker, and return False, if it is another deployment's."""
        try:
            self()
        except ForeignBroker as error:
            _log.critical("this worker ends: %s", error)
            vars(state)["should_stop"] = _EXIT_FAILURE  # the main loop ends the worker with this exit code
            return False
        return True

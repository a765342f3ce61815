"""Checks that no other deployment shares the broker or the channels of this one, and that workers read all lists."""

from collections.abc import Iterator
from typing import Final

import redis
from celery import Celery

from roboco.broker.broker import is_amqp
from roboco.broker.broker_owner import Deployment, ForeignBroker, check_broker_owner, read_owner
from roboco.broker.unread_lists import UnreadLists
from roboco.cli.doctor.check import CheckResult
from roboco.client.wiring import workspace_address
from roboco.engine.worker_status import workspace_name
from roboco.errors import RobocoError
from roboco.redis.keys import Keys
from roboco.redis.shared_channels import find_shared_channels
from roboco.settings import Settings
from roboco.workspace.open import open_workspace

MAX_PAGES: Final = 200
"""Pages of keys that are searched for lists without readers."""
_STORE_TIMEOUT: Final = 5.0
"""The most seconds to wait for an answer of the store, which has the id of this deployment."""


def check_channels(client: redis.Redis, settings: Settings) -> CheckResult:
    """Check that no deployment in another database of this Redis has the same prefix."""
    found = find_shared_channels(client, Keys(settings.prefix))
    if found is None:
        return CheckResult("redis channels", "ok", "no other database has this prefix")
    return CheckResult("redis channels", "fail", f"shared with database {found.other_database}", str(found))


def check_owner(app: Celery, settings: Settings) -> CheckResult:
    """Check that the broker carries the messages of this deployment."""

    def own() -> Deployment:
        files = open_workspace(
            settings.workspace, settings.s3_endpoint_url, min(_STORE_TIMEOUT, settings.s3_timeout), attempts=1
        ).files
        return Deployment(settings.prefix, workspace_name(files, workspace_address(settings)).id)

    try:
        owner = read_owner(app, own)
        if owner is None:
            return CheckResult("broker deployment", "ok", "not recorded yet")
        check_broker_owner(app, own)
    except ForeignBroker as error:
        return CheckResult("broker deployment", "fail", "another deployment uses this broker", str(error))
    except RobocoError as error:
        return CheckResult("broker deployment", "warn", f"not compared: {error}", "check ROBOCO_WORKSPACE")
    return CheckResult("broker deployment", "ok", str(owner))


def check_unread_lists(app: Celery, settings: Settings) -> Iterator[CheckResult]:
    """Check that each list of a broker on Redis has a reader if it has messages."""
    if is_amqp(settings.broker):
        return
    lists = UnreadLists(app)
    is_whole = lists.search(MAX_PAGES)
    found = lists.found()
    for one in found:
        yield CheckResult("unread messages", "fail", str(one), f"{one.remedy}; {one.move}")
    if not found:
        searched = "workers read all lists" if is_whole else f"none in the first {MAX_PAGES} pages of keys"
        yield CheckResult("unread messages", "ok", searched)

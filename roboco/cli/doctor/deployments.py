"""Checks that no other deployment shares the broker or the channels of this one."""

from typing import Final

import redis
from celery import Celery

from roboco.broker.broker_owner import Deployment, ForeignBroker, check_broker_owner, read_owner
from roboco.cli.doctor.check import CheckResult
from roboco.client.wiring import workspace_address
from roboco.engine.worker_status import workspace_name
from roboco.errors import RobocoError
from roboco.redis.keys import Keys
from roboco.redis.shared_channels import find_shared_channels
from roboco.settings import Settings
from roboco.workspace.open import open_workspace

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

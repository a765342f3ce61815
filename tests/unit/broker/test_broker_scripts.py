"""The scripts that coordinators load for kombu are all scripts that kombu calls."""

import inspect
import re

from kombu.transport import redis
from redis.lock import Lock

from roboco.broker.broker_scripts import BROKER_SCRIPTS


def test_every_script_of_kombus_transport_is_loaded() -> None:
    registered = re.findall(r"register_script\((\w+)\)", inspect.getsource(redis))
    assert registered
    assert {getattr(redis, name) for name in registered} | {Lock.LUA_RELEASE_SCRIPT} == set(BROKER_SCRIPTS)
    assert "eval(" not in inspect.getsource(redis)

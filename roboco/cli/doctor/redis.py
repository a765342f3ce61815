"""Checks of Redis: it answers in time, its user has the rights that Roboco needs, and it keeps its data."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from statistics import median
from typing import Any, Final

import redis
from redis.cluster import RedisCluster
from redis.exceptions import AuthenticationError, NoPermissionError, RedisError, ResponseError

from roboco.cli.doctor.check import CheckResult, expect
from roboco.domain.ids import SHARDS
from roboco.domain.url import strip_credentials
from roboco.errors import CorruptHistory, RobocoError
from roboco.redis.client import connect
from roboco.redis.cluster import LazyCluster
from roboco.redis.dead_letters import RedisDeadLetters
from roboco.redis.keys import Keys
from roboco.redis.schedule import RedisSchedule
from roboco.redis.scripts import Scripts
from roboco.redis.server_error import explain
from roboco.redis.shared_channels import find_shared_channels
from roboco.redis.task_store import RedisTaskStore, StoredSteps, no_steps
from roboco.settings import Settings

MIN_VERSION: Final = (7, 0)
"""The oldest Redis that can run the scripts; a Valkey reports the version of Redis with which it is compatible."""
MAX_ROUND_TRIP: Final = 0.01
"""Seconds of a round trip that slows down each turn noticeably: a turn needs about ten."""
MAX_CLOCK_SKEW: Final = 1.0
"""Seconds by which clocks may differ: workers compare leases and due times across machines."""
_RIGHTS = "+@read +@write +@scripting +@pubsub +@connection +@transaction +info +time"
SAMPLED_TASKS: Final = 20
"""Tasks that are read to check that this version can read them."""
MAX_MEMORY_SHARE: Final = 0.9
"""The part of its memory that Redis may use."""


def check_redis(settings: Settings, is_configured: bool) -> Iterator[CheckResult]:
    """Check that Redis answers, its speed, the rights of its user, and that it keeps its data.

    If the environment names no address (`is_configured`), a missing Redis is a warning: `roboco run` starts one.
    """
    where = strip_credentials(settings.redis_url)
    try:
        with connect(settings.redis_url) as client:
            yield from _check_server(settings, client, where)
    except (RedisError, RobocoError, OSError) as error:
        todo = "check ROBOCO_REDIS_URL and that the server runs"
        if not is_configured:
            todo = "run `roboco dev`, or set ROBOCO_REDIS_URL; `roboco run` and `roboco demo` start their own"
        known = isinstance(error, ResponseError | AuthenticationError)
        found, todo = explain(error) if known else (str(error), todo)
        yield CheckResult("redis", "fail" if is_configured else "warn", f"{where}: {found}", todo)


def _check_server(settings: Settings, client: redis.Redis, where: str) -> Iterator[CheckResult]:
    client.ping()
    keys = Keys(settings.prefix)
    refused = _refused_commands(client, keys)
    yield expect(
        "redis rights",
        not refused,
        f"refused: {', '.join(refused)}" if refused else "all needed rights",
        f"give its user {_RIGHTS}, on the keys and channels {settings.prefix}:*",
        "fail",
    )
    if refused:
        yield CheckResult("redis", "fail", f"{where} refuses commands that Roboco needs", "see the rights above")
        return
    nodes = _node_infos(client)
    yield _check_version(next(iter(nodes.values())), where)
    trip = median(_seconds_of(client.ping) for _ in range(9))
    todo = "move workers and Redis closer together: a turn takes ten round trips"
    yield expect("redis latency", trip < MAX_ROUND_TRIP, f"round trip {trip * 1000:.1f} ms", todo)
    yield _check_clock(client)
    yield from _check_nodes(nodes)
    if not isinstance(client, LazyCluster) and nodes[""].get("aof_enabled"):
        yield from _check_replay(client)
    yield _check_keys(client, keys)
    yield _check_channels(client, keys)
    letters = RedisDeadLetters(lambda: client, keys).count()
    yield expect("dead letters", letters == 0, str(letters), "see `roboco dead-letters`")


def _check_channels(client: redis.Redis, keys: Keys) -> CheckResult:
    """Check that no deployment in another database of this Redis has the same prefix."""
    found = find_shared_channels(client, keys)
    if found is None:
        return CheckResult("redis channels", "ok", "no other database has this prefix")
    return CheckResult("redis channels", "fail", f"shared with database {found.other_database}", str(found))


def _check_version(facts: dict[str, Any], where: str) -> CheckResult:
    version = str(facts.get("redis_version", "0"))
    name = f"Valkey {facts['valkey_version']}" if "valkey_version" in facts else f"Redis {version}"
    found = f"{name} at {where}"
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < MIN_VERSION:
        return CheckResult("redis", "fail", found, "use Redis 7.0 or newer, or Valkey")
    if facts.get("role") in ("slave", "replica"):
        return CheckResult("redis", "fail", f"{found}, a replica", "name the primary in ROBOCO_REDIS_URL")
    return CheckResult("redis", "ok", found)


def _check_clock(client: redis.Redis) -> CheckResult:
    before = time.time()
    asked: Any = client.time()
    seconds, micros = asked
    skew = seconds + micros / 1e6 - (before + time.time()) / 2
    found = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this machine"
    return expect(
        "redis clock", abs(skew) < MAX_CLOCK_SKEW, found, "synchronise the clocks of all machines by NTP", "fail"
    )


def _node_infos(client: redis.Redis) -> dict[str, dict[str, Any]]:
    """Return the INFO of Redis, or of each primary of a cluster by its address."""
    if not isinstance(client, LazyCluster):
        return {"": client.info()}
    answers: Any = client.info(target_nodes=RedisCluster.PRIMARIES)
    return {"the only primary": answers} if "redis_version" in answers else dict(answers)


def _check_nodes(nodes: dict[str, dict[str, Any]]) -> Iterator[CheckResult]:
    """Yield each check of persistence once: that of the first node that fails it, or of the first node."""
    found: dict[str, CheckResult] = {}
    for node, facts in nodes.items():
        for check in _check_persistence(facts):
            if check.state != "ok" and node:
                check = replace(check, found=f"{check.found} ({node})")
            if check.name not in found or found[check.name].state == "ok":
                found[check.name] = check
    yield from found.values()


def _check_persistence(facts: dict[str, Any]) -> Iterator[CheckResult]:
    policy, evicted = str(facts.get("maxmemory_policy", "noeviction")), int(facts.get("evicted_keys", 0))
    found = f"maxmemory-policy {policy}" + (f", {evicted} keys were evicted" if evicted else "")
    yield expect(
        "redis memory", policy == "noeviction", found, "set it to noeviction: otherwise tasks lose their state"
    )
    used, most = int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))
    if most:
        found = f"{used / 2**20:.0f} of {most / 2**20:.0f} MB are used"
        todo = "give Redis more memory: once it is full, it accepts no more writes"
        yield expect("redis room", used < most * MAX_MEMORY_SHARE, found, todo)
    kept, written = bool(facts.get("aof_enabled")), facts.get("aof_last_write_status", "ok") == "ok"
    todo = "set appendonly yes: otherwise a restart of Redis restarts every turn in flight"
    found = f"appendonly {'yes' if kept else 'no'}" + ("" if written else ", which fails")
    yield expect(
        "redis disk", kept and written, found, todo if written else "see the log of Redis: its disk may be full"
    )


def _check_replay(client: redis.Redis) -> Iterator[CheckResult]:
    """Check that the default user may run every command: Redis replays transactions of its file with its rights.

    Yield nothing if this user may not read the rights of others, as most may not.
    """
    try:
        default: Any = client.acl_getuser("default")
    except RedisError:
        return
    right = "+@all" in default["categories"] and "~*" in default["keys"]
    found = "the default user may run every command" if right else "a restart loses transactions (redis#14541)"
    todo = "set `user default off resetpass ~* &* +@all`: it cannot log in, and keeps its rights while the file is read"
    yield expect("redis replay", right, found, todo, "fail")


def _check_keys(client: redis.Redis, keys: Keys) -> CheckResult:
    """Check that this version can read the keys below the prefix."""
    kinds = {keys.dead_letters: "hash", keys.sentinel: "string", keys.schedule_fill: "hash"}
    kinds |= {key(shard): "zset" for key in (keys.schedule, keys.scheduled_jobs) for shard in range(SHARDS)}
    todo = (
        "let the tasks of the other version end first, or give this version another ROBOCO_PREFIX and another "
        "ROBOCO_BROKER_URL"
    )
    for key, kind in kinds.items():
        if (found := str(client.type(key))) not in (kind, "none"):
            return CheckResult("redis keys", "fail", f"{key} is a {found}, expected a {kind}", todo)
    schedule = RedisSchedule(Scripts(client), keys)
    asked = islice(schedule.task_ids(), SAMPLED_TASKS)
    board = RedisTaskStore(Scripts(client), keys, StoredSteps(no_steps))
    for task_id in asked:
        try:
            with suppress(CorruptHistory):  # a large step, which is in the workspace
                board.load(task_id, 1)
        except (KeyError, ValueError) as error:
            found = f"task {task_id!r} below {keys.prefix!r} cannot be read: {type(error).__name__}"
            return CheckResult("redis keys", "fail", found, todo)
    return CheckResult("redis keys", "ok", f"prefix {keys.prefix!r}, open tasks: {schedule.count()}")


def _refused_commands(client: redis.Redis, keys: Keys) -> list[str]:
    """Return the commands that the user may not run. The check tries them on keys that no other process uses."""
    task_id = f"_doctor-{uuid.uuid4().hex}"
    state, log = keys.state(task_id), keys.events(task_id)
    scripts = Scripts(client)
    tries: dict[str, Callable[[], object]] = {
        "INFO": lambda: client.info("server"),
        "TIME": client.time,
        "EVALSHA and SCRIPT LOAD": lambda: scripts.run("clear_cancellation", [state], 0),
        "HSET": lambda: client.hset(state, "epoch", "0"),
        "EXPIRE": lambda: client.expire(state, 60),
        "XADD and XRANGE": lambda: (client.xadd(log, {"m": "{}"}), client.xrange(log)),
        "ZADD": lambda: client.zrange(keys.schedule(0), 0, 0),
        "PUBLISH": lambda: client.publish(log, "{}"),
        "SUBSCRIBE": lambda: _subscribe(client, log),
    }
    refused = [name for name, attempt in tries.items() if not _is_permitted(attempt)]
    _is_permitted(lambda: client.delete(state, log))
    return refused


def _is_permitted(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except NoPermissionError:
        return False
    except ResponseError:  # a key of another application has this name: another check reports it
        return True
    return True


def _subscribe(client: redis.Redis, channel: str) -> None:
    untyped: Any = client
    with untyped.pubsub() as listener:
        listener.subscribe(channel)
        listener.get_message(timeout=1.0)


def _seconds_of(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began

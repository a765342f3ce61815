"""An error of Redis is temporary, and names its cause and remedy, unless it is known to be final."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import redis

from roboco.domain.team.model_profile import ModelLimits
from roboco.errors import RobocoError, TransientError
from roboco.local.valkey import ValkeyServer
from roboco.redis.client import connect_fail_fast
from roboco.redis.keys import Keys
from roboco.redis.monitor import RedisMonitor
from roboco.redis.scripts import ScriptCall, Scripts, translating_errors
from tests.support.servers.refusing_redis import RefusingRedis

TEMPORARY = {
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.": "SCRIPT KILL",
    "NOPERM this user has no permissions to run the 'evalsha' command": "redis-users.acl",
    "ACL failure in script: No permissions to access a key script: 0a, on @user_script:23.": "redis-users.acl",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.": "leads to the primary",
    "READONLY You can't write against a read only replica.": "leads to the primary",
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)": "to the primary",
    "CLUSTERDOWN Hash slot not served": "CLUSTER INFO",
    "TRYAGAIN Multiple keys request during rehashing of slot": "CLUSTER INFO",
    "LOADING Redis is loading the dataset in memory": "it loads its data",
    "OOM command not allowed when used memory > 'maxmemory'.": "raise its `maxmemory`",
    "MISCONF Errors writing to the AOF file: No space left on device": "check its disk and its replicas",
    "MISCONF Redis is configured to save RDB snapshots. script: 4ab6, on @user_script:3.": "check its disk",
    "NOREPLICAS Not enough good replicas to write.": "check its disk and its replicas",
    "NOAUTH Authentication required.": "asks for a password, and ROBOCO_REDIS_URL has none",
    "WRONGPASS invalid username-password pair or user is disabled.": "refuses the user or password",
    "ERR max daily request limit exceeded. Limit: 10000, Usage: 10000.": "raise this limit",
    "ERR max number of clients reached": "raise this limit",
    "ERR unknown command 'evalsha', with args beginning with: 'WRONGTYPE' 'syntax error'": "Redis 7.0 or newer",
    "ERR unknown": "see the server, proxy or provider",
    "ERR Proxy: upstream failure": "see the server, proxy or provider",
    "EXECABORT Transaction discarded because of previous errors.": "see the server, proxy or provider",
}
FINAL = (
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "WRONGTYPE Operation against a key holding the wrong kind of value script: 4ab6, on @user_script:3.",
    "ERR wrong number of arguments for 'get' command",
    "ERR syntax error",
    "ERR value is not an integer or out of range",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "ERR user_script:5: attempt to index a nil value script: 4ab6, on @user_script:5.",
)


pytestmark = pytest.mark.redis
WRITE = ScriptCall("put_switches", ["roboco:switches"], [1, "{}"])


@pytest.fixture(scope="module")
def proxy(valkey: ValkeyServer) -> Iterator[RefusingRedis]:
    """A proxy before the server. Tests leave it open."""
    with RefusingRedis(valkey.port) as entered:
        yield entered


@contextmanager
def refused(proxy: RefusingRedis, answer: str, raw: bool = False) -> Iterator[Scripts]:
    """Yield scripts on the proxy, which refuses each call within the block, and none after it."""
    with connect_fail_fast(proxy.url) as client:
        scripts = Scripts(client)
        scripts.run(*WRITE[:2], *WRITE.arguments)
        proxy.refuse(answer, raw=raw)
        try:
            yield scripts
        finally:
            proxy.accept()
        scripts.run(*WRITE[:2], *WRITE.arguments)


@pytest.mark.parametrize(("answer", "remedy"), TEMPORARY.items(), ids=lambda text: str(text).split()[0])
def test_an_error_of_the_server_is_temporary_and_names_its_remedy(
    proxy: RefusingRedis, answer: str, remedy: str
) -> None:
    with refused(proxy, answer) as scripts:
        with pytest.raises(TransientError) as caught:
            scripts.run(*WRITE[:2], *WRITE.arguments)
        assert remedy in str(caught.value)
        assert "syntax error" not in str(caught.value), "an argument may be content of a user"
        (found,) = scripts.run_all([WRITE])
        assert isinstance(found, TransientError)
        with pytest.raises(TransientError):
            RedisMonitor(scripts.client, Keys(), ModelLimits()).task_ids(1)


@pytest.mark.parametrize("answer", FINAL)
def test_an_error_of_the_command_is_final(proxy: RefusingRedis, answer: str) -> None:
    with refused(proxy, answer) as scripts:
        with pytest.raises(RobocoError, match="refuses a command for good") as caught:
            scripts.run(*WRITE[:2], *WRITE.arguments)
        (found,) = scripts.run_all([WRITE])
    assert not isinstance(caught.value, TransientError)
    assert not isinstance(found, TransientError)


def test_the_command_of_a_pipeline_does_not_decide_whether_its_error_is_final() -> None:
    text = "Command # 1 (SET key 'WRONGTYPE syntax error') of pipeline caused error: Redis is BUSY"
    with pytest.raises(TransientError, match="SCRIPT KILL") as caught, translating_errors():
        raise redis.ResponseError(text)
    assert "SET key" not in str(caught.value)

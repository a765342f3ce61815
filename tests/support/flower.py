"""A real Flower process, queried over HTTP as a browser or Prometheus does."""

import base64
import json
import os
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from roboco.cli.stack.dev_stack import FLOWER_COLUMNS
from roboco.local.process import free_port
from tests.support import forked
from tests.support.stack import ROOT, Stack, until

_USER = "watcher:only-for-tests"


@dataclass(frozen=True)
class Flower:
    """A running Flower."""

    address: str

    def get(self, path: str) -> str:
        """Return the body of a GET request."""
        headers = {"Authorization": f"Basic {base64.b64encode(_USER.encode()).decode()}"}
        with urllib.request.urlopen(urllib.request.Request(self.address + path, headers=headers), timeout=60) as answer:
            return str(answer.read().decode())

    def rows(self, search: str) -> dict[str, Any]:
        """Return the Celery tasks that a search finds by id, sorted by id."""
        found = json.loads(self.get(f"/api/tasks?limit=500&search={urllib.parse.quote(search)}"))
        return {ident: found[ident] for ident in sorted(found)}

    def states(self, search: str) -> dict[str, str]:
        """Return the state of each Celery task that a search finds, by id."""
        return {ident: row["state"] for ident, row in self.rows(search).items()}


@contextmanager
def flower(stack: Stack, password: bool = True, **environment: str) -> Iterator[Flower]:
    """Run Flower beside the stack. The block starts once Flower shows all workers."""
    port = free_port()
    arguments = ["-A", "roboco.workers.watcher", "flower", "--address=127.0.0.1", f"--port={port}"]
    env = stack.environment | ({"FLOWER_BASIC_AUTH": _USER} if password else {}) | environment
    server = forked.start(
        "flower",
        [*arguments, f"--conf={os.devnull}", f"--tasks_columns={FLOWER_COLUMNS}"],
        env=env,
        log=stack.folder / "flower.log",
        cwd=ROOT,
    )
    seen = Flower(f"http://127.0.0.1:{port}")

    def ready() -> bool:
        try:
            metrics = seen.get("/metrics")
            return all(worker in metrics for worker in stack.workers)
        except OSError:
            return False

    try:
        until(ready, 60, lambda: f"Flower sees the workers:\n{(stack.folder / 'flower.log').read_text()[-3000:]}")
        yield seen
    finally:
        server.stop()

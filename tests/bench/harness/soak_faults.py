"""The faults of the soak: random kills and stops of workers and servers, with a seed."""

import os
import random
import signal
import time
from collections import Counter

from roboco.local.seaweed import S3Server, start_seaweed
from tests.support.stack import Stack

WORKERS = ("coordinator", "coordinator-2", "agents", "agents-2", "tools", "tools-2")
RESTART_SECONDS = 6.0
"""Maximum seconds until a worker runs again."""
FAULT_WEIGHTS = {"SIGKILL": 10, "SIGSTOP": 4, "SIGTERM": 3, "redis killed": 2, "redis emptied": 1, "s3 killed": 1}
"""The kinds of faults, and their relative frequencies."""


class Faults:
    """A source of faults, one every `interval` seconds on average."""

    counts: Counter[str]
    """Number of faults by kind."""
    kills: list[float]
    """Times of the kills of agents workers."""
    outages: list[float]
    """Times of the kills of Redis and of the S3 server."""
    pauses: list[float]
    """Times at which a worker was stopped with SIGSTOP."""
    all_agents_down: list[float]
    """Times at which possibly no agents worker ran."""

    def __init__(self, stack: Stack, s3: S3Server | None, interval: float, rng: random.Random) -> None:
        self.counts = Counter()
        self.kills = []
        self.outages = []
        self.pauses = []
        self.all_agents_down = []
        self.s3 = s3
        self._stack = stack
        self._interval = interval
        self._rng = rng
        self._next = time.monotonic() + interval
        self._stopped: dict[str, float] = {}
        self._s3_back = 0.0

    def step(self, more: bool) -> None:
        """Restart ended workers and servers, continue stopped workers, and inject the next fault if it is due."""
        now = time.monotonic()
        for name, until in list(self._stopped.items()):
            if now >= until or not more:
                del self._stopped[name]
                self._signal(name, signal.SIGCONT)
        if self.s3 is not None and not self.s3.alive() and (now >= self._s3_back or not more):
            self.s3 = start_seaweed(self.s3.log.parent, self.s3.port)
        for name in WORKERS:
            if not self._stack.workers[name].alive():
                self._stack.start(name)
        if more and now >= self._next:
            self._next = now + self._rng.uniform(0.3, 1.7) * self._interval
            self._inject(self._rng.choices(list(FAULT_WEIGHTS), list(FAULT_WEIGHTS.values()))[0])

    def _inject(self, kind: str) -> None:
        name = self._rng.choice([worker for worker in WORKERS if worker not in self._stopped])
        match kind:
            case "SIGKILL":
                if name.startswith("agents"):
                    now = time.monotonic()
                    if self.kills and now - self.kills[-1] < RESTART_SECONDS:
                        self.all_agents_down += [self.kills[-1], now]
                    self.kills.append(now)
                self._signal(name, signal.SIGKILL)
                self._stack.workers[name].process.wait()
            case "SIGSTOP":
                self.pauses.append(time.monotonic())
                self._signal(name, signal.SIGSTOP)
                self._stopped[name] = time.monotonic() + self._stack.settings.lease_seconds + self._rng.uniform(0.5, 2)
            case "SIGTERM":
                self.all_agents_down += [time.monotonic()] if name.startswith("agents") else []
                self._stack.workers[name].process.terminate()
            case "redis killed" | "redis emptied":
                self.outages.append(time.monotonic())
                self._stack.restart_redis(keep=kind == "redis killed")
            case _ if self.s3 is not None and self.s3.alive():
                self.outages.append(time.monotonic())
                os.kill(self.s3.pid, signal.SIGKILL)
                self.s3.process.wait()
                self._s3_back = time.monotonic() + self._rng.uniform(0.5, 3)
            case _:
                return
        self.counts[kind] += 1

    def _signal(self, name: str, signal_number: signal.Signals) -> None:
        """Send the signal to the worker and all its processes, which form a process group."""
        try:
            os.killpg(self._stack.workers[name].pid, signal_number)
        except ProcessLookupError:
            self._stack.workers[name].process.wait()

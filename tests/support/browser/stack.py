"""A deployment for tests of the web view: a stack with the teams, and a gateway process that serves the page."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roboco import Task, TaskStep
from roboco.local.seaweed import S3Server
from tests.support.browser.teams import answer, write_teams
from tests.support.gateway_process import GatewayProcess
from tests.support.servers.model_server import ModelServer, Reply
from tests.support.stack import Stack, until

TIMEOUT = 120
LEASE_SECONDS = 6.0
"""Seconds after which the work of a killed worker is repeated."""


class WebStack:
    """Workers, Redis, a workspace and a gateway, each of which a test can kill and restart."""

    def __init__(self, stack: Stack, gateway: GatewayProcess) -> None:
        self.stack = stack
        self.gateway = gateway

    @property
    def url(self) -> str:
        """The address of the page, which is its origin."""
        return self.gateway.url

    @property
    def model(self) -> ModelServer:
        """The scripted model server."""
        return self.stack.model

    def run(self, team: str, prompt: str, **options: Any) -> Task:
        """Submit a task to one of the teams of `browser.teams`."""
        return self.stack.orchestrator.run(self.stack.folder / "teams" / f"{team}.json", prompt, **options)

    def wait_status(self, task: Task, *statuses: str, seconds: float = TIMEOUT) -> None:
        """Wait until the task has one of these statuses."""
        until(lambda: task.summary().status in statuses, seconds, lambda: f"{statuses}, but {task.summary()}")

    def wait_steps(self, task: Task, count: int, seconds: float = TIMEOUT) -> list[TaskStep]:
        """Wait until the history has this number of steps, and return it."""
        until(lambda: len(task.history()) >= count, seconds, lambda: f"{count} steps, but {len(task.history())}")
        return task.history()

    def restart_redis(self, keep: bool) -> None:
        """Kill Redis with SIGKILL, and restart it with or without its data."""
        self.stack.restart_redis(keep)

    def break_next_turn(self, text: str = "half an answer that is void ", chunks: int = 4) -> None:
        """Break the next request to the model off after some chunks. The turn is restarted, and its text is void."""
        self.model.fail_next(1, Reply(text=text, break_after=chunks))


@contextmanager
def web_stack(
    folder: Path, *, s3: S3Server | None = None, gateway: Mapping[str, Any] | None = None, **changes: Any
) -> Iterator[WebStack]:
    """Yield a deployment. `gateway` are settings of the gateway, and `changes` those of the workers."""
    settings: dict[str, Any] = {"lease_seconds": LEASE_SECONDS, "teams_dir": write_teams(folder / "teams")} | changes
    with Stack(folder, s3=s3, **settings) as stack, GatewayProcess(stack, **gateway or {}) as started:
        stack.model.script(answer)
        yield WebStack(stack, started)

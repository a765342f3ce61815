"""The bodies of the Celery tasks pass messages of other applications to the engine."""

from functools import cache
from typing import Any, cast

import pytest
from celery import Celery, states

from roboco.engine.engine import Engine
from roboco.errors import TransientError, UsageError
from roboco.settings import Settings
from roboco.workers import tasks
from roboco.workers.process_engine import ProcessEngine
from tests.support.memory_ports.journeys import MANUAL
from tests.support.memory_ports.watch import PortCall
from tests.support.memory_ports.world import TASK, World


class EngineOfTest:
    """A callable that returns the engine of the current world, as in a worker process."""

    settings = Settings()
    world: World

    def __call__(self) -> Engine:
        return self.world.engine


@cache
def worker() -> tuple[Celery, EngineOfTest]:
    """Return the application of a worker, one for all tests."""
    app, engine = Celery("test", set_as_current=False), EngineOfTest()
    tasks.register(app, cast(ProcessEngine, engine))
    return app, engine


def run_celery_task(world: World, name: str, **arguments: Any) -> str:
    """Run the Celery task of this name in this process, and return its state."""
    app, engine = worker()
    engine.world = world
    return str(app.tasks[name].apply(kwargs=arguments, task_id="message-1", throw=True).state)


def test_a_message_of_another_application_is_accepted() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)
    assert run_celery_task(world, "roboco.send", task_id=TASK, message="hello") == states.SUCCESS
    assert "message-1" in world.pending_item_ids()


def test_a_message_returns_to_its_queue_if_a_server_does_not_answer() -> None:
    world = MANUAL.world()
    world.submit(MANUAL.team)

    def watch(name: str, call: PortCall) -> Any:
        if name == "files.create":
            raise TransientError("no answer")
        return call()

    world.watch = watch
    assert run_celery_task(world, "roboco.send", task_id=TASK, message="hello") == states.REJECTED
    assert not list(world.engine.tasks.dead_letters.entries())


def test_the_log_of_a_refused_answer_names_its_task_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError):
        run_celery_task(MANUAL.world(), "roboco.task_answer", task_id=TASK, secret="canary")
    assert f"(roboco.task_answer of {TASK}) is refused" in caplog.text
    assert "canary" not in caplog.text

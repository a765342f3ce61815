"""RabbitMQ with quorum queues as the broker, with Redis for streams and state."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from kombu import Connection

from roboco.broker.app import app_settings, create_app
from roboco.broker.dispatcher import CeleryDispatcher
from roboco.broker.names import AGENTS_QUEUE, COORDINATOR_QUEUE
from roboco.client.wiring import producer_app
from roboco.domain.history.step import verify_chain
from roboco.errors import TransientError
from roboco.lab.servers.gate import Gate
from roboco.ports.assignment import TurnAssignment
from roboco.settings import Settings
from tests.conftest import need
from tests.support.double_delivery import send_twice
from tests.support.journeys import GRAPH, JOURNEYS, StackJourney, answer, shape
from tests.support.servers.model_server import Reply, Request
from tests.support.servers.rabbitmq import RabbitServer, find_rabbitmq, start_rabbitmq
from tests.support.stack import LONG_LEASE, Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]


@pytest.fixture(scope="module")
def rabbit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    need(find_rabbitmq)
    server = start_rabbitmq(tmp_path_factory.mktemp("rabbitmq"))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def rabbit_stack(rabbit: RabbitServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield a stack whose workers and client send every message twice."""
    with Stack(
        tmp_path_factory.mktemp("stack"),
        modules="tests.support.double_delivery",
        broker_url=rabbit.url,
        lease_seconds=LONG_LEASE,
    ) as stack:
        stack.model.script(answer)
        send_twice(stack.orchestrator._producer)
        yield stack


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_journey_with_every_message_twice_makes_each_turn_once(rabbit_stack: Stack, journey: StackJourney) -> None:
    requests_before = len(rabbit_stack.model.requests)
    task = rabbit_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected
    turns = sum(1 for step in task.history() if step.by_agent)
    assert len(rabbit_stack.model.requests) - requests_before == turns, "each turn is made once"
    assert rabbit_stack.model.violations == []


def slow_answer(request: Request) -> Reply:
    return Reply(text=answer(request).text, interval=0.1)


RECOVERY_TIMEOUT = 240.0
"""Seconds. A connection that a worker opens while RabbitMQ starts may stay silent until its heartbeat expires after
60 s. That happens in about one of three runs."""


def test_all_tasks_end_after_rabbitmq_is_killed_and_restarted(rabbit_stack: Stack, rabbit: RabbitServer) -> None:
    rabbit_stack.model.script(slow_answer)
    requests_before = len(rabbit_stack.model.requests)
    tasks = [rabbit_stack.orchestrator.run(GRAPH.team, GRAPH.prompt) for _ in range(6)]
    until(lambda: len(rabbit_stack.model.requests) >= requests_before + 6, 60, "the first turns are running")
    rabbit.kill()
    late = rabbit_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)  # accepted, since the workspace has it
    rabbit.restart()
    for task in [*tasks, late]:
        assert task.result(RECOVERY_TIMEOUT).status == "completed"
        assert shape(task.history()) == GRAPH.expected
        assert verify_chain(rabbit_stack.orchestrator._engine.workspace.histories.lines(task.task_id)) == len(
            GRAPH.expected
        )
    assert all(worker.alive() for worker in rabbit_stack.workers.values())
    turns = sum(1 for step in GRAPH.expected if step[0] != "user") * 7
    assert len(rabbit_stack.model.requests) - requests_before == turns, "each turn is made once"
    rabbit_stack.model.script(answer)


def purge_queue(app: Celery, queue: str) -> None:
    """Purge the queue once the broker has requeued the messages of a killed worker."""
    with app.connection_for_write() as connection:
        channel: Any = connection.default_channel
        until(
            lambda: channel.queue_declare(queue, passive=True).consumer_count == 0,
            10,
            "the broker has closed the consumer",
        )
        channel.queue_purge(queue)


def test_an_operator_sees_the_depth_of_queues_on_rabbitmq(rabbit_stack: Stack) -> None:
    """Lanes that no worker has declared count as empty, and their channel is usable afterwards."""
    rabbit_stack.kill("agents")
    app = producer_app(rabbit_stack.settings)
    purge_queue(app, AGENTS_QUEUE)
    sender = CeleryDispatcher(app)
    for number in range(3):
        sender.turn(TurnAssignment(f"task_{number}", 1, 1, 1), "writer")

    def depth() -> dict[str, tuple[int, float | None]]:
        return {
            one.name: (one.waiting, one.oldest_age) for one in rabbit_stack.orchestrator.operator.operations.queues()
        }

    until(lambda: depth()[AGENTS_QUEUE] == (3, None), 60, lambda: str(depth()))
    assert depth()[COORDINATOR_QUEUE][1] is None
    purge_queue(app, AGENTS_QUEUE)
    app.close()
    rabbit_stack.start("agents")
    rabbit_stack.wait_ready("agents")


def test_a_message_without_confirmation_raises(rabbit: RabbitServer) -> None:
    """If the broker accepts bytes but confirms nothing, the sender gets an error after a limited time."""
    with Gate(rabbit.port) as gate:
        once = {"task_publish_retry_policy": {"max_retries": 0}}
        app = create_app(app_settings(f"amqp://roboco:secret@127.0.0.1:{gate.port}//") | once)
        sender = CeleryDispatcher(app)
        sender.advance("task_1")
        held = gate.hold(b"roboco.advance", answer=True)
        with pytest.raises(TransientError, match="the broker does not take"):
            sender.advance("task_2")
        assert held.reached.is_set()
        held.drop()
        app.close()


def test_an_alarm_of_rabbitmq_is_the_cause_for_which_work_waits(rabbit: RabbitServer) -> None:
    app = producer_app(Settings(broker_url=rabbit.url))
    dispatcher = CeleryDispatcher(app)
    try:
        assert dispatcher.fault() == ""
        rabbit.control("set_vm_memory_high_watermark", "0")
        until(lambda: "RabbitMQ has an alarm, low on memory" in dispatcher.fault(), 30, dispatcher.fault)
        rabbit.control("set_vm_memory_high_watermark", "0.9")
        until(lambda: dispatcher.fault() == "", 30, dispatcher.fault)
    finally:
        app.close()


def test_each_unreadable_message_becomes_a_dead_letter(rabbit_stack: Stack, rabbit: RabbitServer) -> None:
    """Messages of different connections share delivery tags, since each connection counts from 1."""
    orchestrator = rabbit_stack.orchestrator
    for queue, count in ((COORDINATOR_QUEUE, 1), (AGENTS_QUEUE, 2)):
        with Connection(rabbit.url) as connection, connection.Producer() as sends:
            sends.publish({"not": "ours"}, exchange="", routing_key=queue, headers={"task": f"of-{queue}", "id": "1"})
            sends.publish({"not": "ours"}, exchange="", routing_key=queue, headers={"task": f"of-{queue}", "id": "2"})
        until(lambda: len(orchestrator.operator.dead_letters()) == 2 * count, 60, "the messages are dead letters")  # noqa: B023 - called in this round

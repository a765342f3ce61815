"""Streams and state in a Redis Cluster of real processes, with a single Redis as the broker."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from roboco import Task
from roboco.lab.transcript import Transcript
from roboco.local.valkey import ValkeyServer, find_server
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts, script_texts
from tests.conftest import need
from tests.support.journeys import GRAPH, JOURNEYS, StackJourney, answer, shape
from tests.support.servers.cluster import PRIMARIES, Cluster
from tests.support.servers.model_server import Reply, Request
from tests.support.stack import Stack, until

pytestmark = [pytest.mark.workers, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Yield a cluster of three primaries, each with a replica."""
    need(find_server)
    with Cluster(tmp_path_factory.mktemp("cluster"), replicas=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster_stack(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    @contextmanager
    def with_cluster(valkey: ValkeyServer) -> Iterator[dict[str, Any]]:
        yield {"redis_url": cluster.url, "broker_url": valkey.url}

    with Stack(tmp_path_factory.mktemp("stack"), around=with_cluster) as stack:
        stack.model.script(answer)
        yield stack


@pytest.mark.parametrize("journey", JOURNEYS, ids=lambda journey: journey.name)
def test_a_journey_on_a_cluster_ends_with_the_expected_history(cluster_stack: Stack, journey: StackJourney) -> None:
    task = cluster_stack.orchestrator.run(journey.team, journey.prompt)
    assert journey.run_to_end(task) == journey.final_status
    assert shape(task.history()) == journey.expected


def slow_answer(request: Request) -> Reply:
    return Reply(text=answer(request).text, interval=0.1)


def test_a_turn_survives_the_migration_of_its_slot(cluster: Cluster, cluster_stack: Stack) -> None:
    """The keys of the slot move one by one, so scripts find only some of them for a moment."""
    cluster_stack.model.script(slow_answer)
    task = cluster_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    state = Keys(cluster_stack.settings.prefix).state(task.task_id)
    transcript = Transcript()
    moved = None
    for item in task.stream():
        transcript.take(item)
        if moved is None and transcript.types.count("text_part_delta") == 3:
            moved = (cluster.owner(state) + 1) % PRIMARIES
            cluster.migrate(state, moved)
    assert cluster.owner(state) == moved
    assert_complete(task, transcript)


def test_a_turn_survives_the_failover_of_its_node(cluster: Cluster, cluster_stack: Stack) -> None:
    cluster_stack.model.script(slow_answer)
    task = cluster_stack.orchestrator.run(GRAPH.team, GRAPH.prompt)
    transcript = Transcript()
    state = Keys(cluster_stack.settings.prefix).state(task.task_id)
    killed = None
    for item in task.stream():
        transcript.take(item)
        if killed is None and transcript.types.count("text_part_delta") == 3:
            killed = cluster.owner(state)
            cluster.kill(killed)
    assert cluster.owner(state) != killed
    assert_complete(task, transcript)
    schedule = cluster_stack.orchestrator._engine.tasks.schedule
    until(schedule.is_intact, 60, "a sweeper has noticed the failover and refilled the schedule")
    with connect(cluster.url) as client:
        hashes = list(map(Scripts(client).hash_of, script_texts()))
    new = cluster.owner(state)
    until(
        lambda: all(cluster.ask(new, "SCRIPT", "EXISTS", *hashes)),
        20,
        "a coordinator has loaded all scripts at the new primary",
    )


def assert_complete(task: Task, transcript: Transcript) -> None:
    """Raise AssertionError unless the task has the expected history and its follower lost and repeated nothing."""
    assert task.result(60).status == "completed"
    assert shape(task.history()) == GRAPH.expected
    assert transcript.finals == list(range(len(GRAPH.expected)))
    assert transcript.texts == {step.step_id: step.text for step in task.history() if step.by_agent}

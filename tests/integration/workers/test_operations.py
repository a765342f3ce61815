"""The reports for operators beside real workers."""

import pytest

from roboco import Orchestrator, parse_team
from roboco.broker.names import AGENTS_QUEUE, QUEUES
from tests.support.servers.model_server import Reply
from tests.support.stack import POOLS, Stack, until

pytestmark = pytest.mark.workers

TEAM = {
    "name": "newsroom",
    "models": {"standard": {"model": "scripted", "default": True, "tokens_per_minute": 50_000}},
    "agents": [{"name": "speaker", "prompt": "speaker"}],
}


def test_a_worker_reports_the_turns_that_it_runs(folder_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the operator names the same model server as the agents workers."""
    stack = folder_stack
    monkeypatch.setenv("OPENAI_BASE_URL", stack.environment["OPENAI_BASE_URL"])
    stack.model.script(lambda request: Reply(text="word " * 400, interval=0.1))
    task = stack.orchestrator.run(parse_team(TEAM), "speak", task_id="shown")
    next(item for item in task.stream() if item.type == "text_part_delta")
    client = Orchestrator(stack.settings)
    operations = client.operator.operations

    def running() -> set[tuple[str, ...]]:
        workers = operations.workers(10).workers
        return {(*one.pools, *one.running) for one in workers if one.active and one.alive}

    until(lambda: ("agents", "shown/0001/turn/1") in running(), 60, lambda: str(running()))
    report = operations.workers(10)
    assert {pool.name: (pool.live, pool.registered) for pool in report.pools} == dict.fromkeys(POOLS, (1, 1))
    assert operations.overview().open_tasks == 1
    assert [(rate.model, rate.requests, rate.max_tokens) for rate in operations.rates()] == [
        ("scripted (newsroom)", 1, 50_000)
    ]
    task.stop()
    assert task.result(60).status == "cancelled"
    until(lambda: not any(one.active for one in operations.workers(10).workers), 60, lambda: str(running()))
    client.close()


def test_a_queue_without_workers_reports_its_depth_and_age(folder_stack: Stack) -> None:
    stack = folder_stack
    stack.kill("agents")
    task = stack.orchestrator.run(parse_team(TEAM), "speak", tenant="acme")

    def waiting() -> dict[str, int]:
        return {queue.name: queue.waiting for queue in stack.orchestrator.operator.operations.queues()}

    until(lambda: waiting()[AGENTS_QUEUE] == 1, 60, lambda: str(waiting()))
    queues = {queue.name: queue for queue in stack.orchestrator.operator.operations.queues()}
    assert set(queues) == set(QUEUES)
    assert 0 <= (queues[AGENTS_QUEUE].oldest_age or -1) < 60
    task.stop()

"""Summaries: created once for each range of steps, stored in the workspace, and never an obstacle for a turn."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from roboco.domain.status import TaskStatus
from roboco.engine.accept.wait_cause import current_cause
from roboco.errors import ModelError, TransientError
from roboco.ports.tools import ToolContext
from roboco.tools.search.memory_index import MemoryIndex
from tests.support.memory_ports.journeys import assert_whole
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.world import TASK, World, team_of, world_parts


class SummarizingModel:
    """A model that answers turns with text, and requests for a summary with a numbered summary."""

    def __init__(
        self, failures: int = 0, meanwhile: Callable[[], None] = lambda: None, replies: Iterable[str] = ()
    ) -> None:
        self.replies = iter(replies)
        self.failures = failures
        self.meanwhile = meanwhile
        self.summary_requests: list[str] = []

    def __call__(self, request: Any) -> ScriptedReply:
        if "minutes" not in request.messages[0]["content"]:
            return ScriptedReply((next(self.replies, "text"),), tokens=(10, 5))
        self.summary_requests.append(request.messages[1]["content"])
        if len(self.summary_requests) <= self.failures:
            return ScriptedReply(error=ModelError("status", "model 'm' answers 500", True))
        return ScriptedReply((f"summary {len(self.summary_requests)}",), tokens=(100, 20), meanwhile=self.meanwhile)


def run(
    model: SummarizingModel,
    rounds: int,
    worlds: list[World] | None = None,
    search: Callable[[dict[str, Any], ToolContext], object] | None = None,
) -> World:
    world = World(world_parts(model, functions={} if search is None else {"memory_search": search}))
    if worlds is not None:
        worlds.append(world)
    team = team_of(
        agents=[{"name": "one", "prompt": "hi", "context": {"strategy": "summary", "steps": 4, "model": "m"}}],
        models={"m": {"model": "m", "price_in": 1000, "price_out": 0, "default": True}},
        collaboration_model={"type": "sequential", "rounds": rounds},
    )
    world.submit(team, prompt="the beginning")
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert_whole(world, "")
    return world


def contexts(world: World) -> list[dict[str, Any]]:
    return [step.metadata["context"] for step in world.history() if step.by_agent]


def test_older_steps_are_summarized_once_for_each_range() -> None:
    model = SummarizingModel()
    world = run(model, 18)
    assert len(model.summary_requests) == 3
    assert sorted(path.partition("summaries/")[2][:8] for path in world.files.held if "summaries/" in path) == [
        *("00000004", "00000008", "00000012")
    ]
    assert "Summary so far:\nsummary 2" in model.summary_requests[2]
    assert "the beginning" in model.summary_requests[0]
    assert "the beginning" not in model.summary_requests[2]
    last = contexts(world)[-1]
    assert last["summary"] == {"steps": [0, 11], "by": "m"}
    assert last["included"] == [[0, 0], [12, 17]]
    assert last["left_out"] == [{"steps": [1, 11], "why": "in the summary"}]
    request = world.given.model.requests[-1]
    assert "summary 3" in request.messages[2]["content"]
    assert request.messages[1]["content"] == "the beginning"


def test_a_model_that_hangs_over_a_summary_is_named() -> None:
    worlds: list[World] = []
    seen: list[str] = []

    def hang() -> None:
        [world] = worlds
        world.clock.move(20)
        world.heartbeat.beat()
        cause = current_cause(world.process(), "", TASK)
        seen.append("" if cause is None else cause.text.partition(";")[0])

    run(SummarizingModel(meanwhile=hang), 8, worlds)
    assert len(seen) == 1
    assert "model 'm' at http://model/v1 has sent nothing for" in seen[0]


def test_a_summary_keeps_word_for_word_what_the_newest_message_asks_for(tmp_path: Path) -> None:
    model, worlds = SummarizingModel(replies=["nothing", "The beginning is at noon.", "so what"]), list[World]()

    def search(args: dict[str, Any], context: ToolContext) -> list[dict[str, Any]]:
        index = MemoryIndex(worlds[0].histories, lambda *_: None, tmp_path)
        found = index.search(context.task_id, args["query"], args["limit"]).hits
        return [hit.to_result() for hit in found if hit.step_id != context.step_id]

    world = run(model, 12, worlds, search)
    kept = "\n(From these steps, word for word)\n[step 2, one] The beginning is at noon."
    request = world.given.model.requests[-1]
    assert request.messages[2]["content"].endswith(f"summary {len(model.summary_requests)}{kept}")
    assert "Summary so far:\nsummary 1\n\n" in model.summary_requests[1]


def test_a_summary_does_not_wait_for_an_index_that_cannot_be_used(caplog: pytest.LogCaptureFixture) -> None:
    def search(args: dict[str, Any], context: ToolContext) -> None:
        raise TransientError("the folder is full")

    assert len(contexts(run(SummarizingModel(), 8, search=search))) == 8
    assert "keeps no passages: the folder is full" in caplog.text

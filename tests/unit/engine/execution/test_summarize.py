"""Summaries: made once for each range of steps, kept in the workspace, and never in the way of a turn."""

from typing import Any

from roboco.domain.status import TaskStatus
from roboco.engine.execution.summarize import MAX_THROTTLED
from roboco.errors import ModelError
from tests.support.memory_ports.journeys import assert_whole
from tests.support.memory_ports.model import Said
from tests.support.memory_ports.world import World, given, team_of


class Speaker:
    """A model that speaks, and sums up for whoever asks it to."""

    def __init__(self, fails: int = 0) -> None:
        self.fails = fails
        self.asked: list[str] = []

    def __call__(self, request: Any) -> Said:
        if "minutes" not in request.messages[0]["content"]:
            return Said(("text",), tokens=(10, 5))
        self.asked.append(request.messages[1]["content"])
        if len(self.asked) <= self.fails:
            return Said(error=ModelError("status", "model 'm' answers 500", True))
        return Said((f"summary {len(self.asked)}",), tokens=(100, 20))


def run(speaker: Speaker, rounds: int) -> World:
    world = World(given(speaker))
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


def test_older_steps_are_summed_up_once_for_each_range() -> None:
    speaker = Speaker()
    world = run(speaker, 18)
    assert len(speaker.asked) == 3
    assert sorted(path.partition("summaries/")[2][:8] for path in world.files.held if "summaries/" in path) == [
        *("00000004", "00000008", "00000012")
    ]
    assert "Summary so far:\nsummary 2" in speaker.asked[2]
    assert "the beginning" in speaker.asked[0]
    assert "the beginning" not in speaker.asked[2]
    last = contexts(world)[-1]
    assert last["summary"] == {"steps": [0, 11], "by": "m"}
    assert last["included"] == [[0, 0], [12, 17]]
    assert last["left_out"] == [{"steps": [1, 11], "why": "in the summary"}]
    request = world.given.model.requests[-1]
    assert "summary 3" in request.messages[2]["content"]
    assert request.messages[1]["content"] == "the beginning"


def test_who_makes_a_summary_pays_for_it() -> None:
    world = run(Speaker(), 8)
    used = [step.metadata["usage"] for step in world.history() if step.by_agent]
    assert used[6] == {"tokens_in": 10, "tokens_out": 5, "cost": 0.01}
    assert used[7] == {"tokens_in": 110, "tokens_out": 25, "cost": 0.11}


def test_a_summary_that_cannot_be_made_is_told_and_tried_again() -> None:
    world = run(Speaker(fails=1), 10)
    assert contexts(world)[7]["no_summary"] == "the summary could not be made: model 'm' answers 500"
    assert contexts(world)[7]["included"] == [[0, 7]]
    assert contexts(world)[8]["summary"] == {"steps": [0, 3], "by": "m"}


def test_steps_are_left_out_only_for_a_reason() -> None:
    for context in contexts(run(Speaker(), 20)):
        seen = [*context["included"], *(one["steps"] for one in context["left_out"])]
        numbers = sorted(seq for first, last in seen for seq in range(first, last + 1))
        assert numbers == list(range(len(numbers)))
        assert context["tokens"]["total"] == sum(n for name, n in context["tokens"].items() if name != "total")
        assert context["tokenizer"].startswith("estimate")


class Refusing(Speaker):
    """A model that is at its rate limit whenever it is to sum up."""

    def __call__(self, request: Any) -> Said:
        if "minutes" in request.messages[0]["content"]:
            self.asked.append("")
            return Said(error=ModelError("rate_limit", "at its limit", True, 1.0))
        return Said(("text",), tokens=(10, 5))


def test_a_provider_that_never_sums_up_does_not_hold_the_task_for_ever() -> None:
    speaker = Refusing()
    world = run(speaker, 8)
    assert len(speaker.asked) == MAX_THROTTLED + 1
    assert contexts(world)[7]["no_summary"] == "the summary could not be made: at its limit"


def test_the_last_turn_at_a_limit_needs_no_new_summary() -> None:
    speaker = Speaker()
    world = World(given(speaker))
    world.submit(
        team_of(
            agents=[{"name": "one", "prompt": "hi", "context": {"strategy": "summary", "steps": 4}}],
            collaboration_model={"type": "sequential", "rounds": 40},
            limits={"max_steps": 7, "at_limit": "wrap_up"},
        )
    )
    world.settle()
    assert world.summary().status is TaskStatus.COMPLETED
    assert [step.agent_name for step in world.history()[7:]] == ["orchestrator", "one"]
    assert speaker.asked == []


def test_a_summary_further_back_is_gone_on_from() -> None:
    speaker = Speaker()
    world = World(given(speaker))
    team = team_of(
        agents=[{"name": "one", "prompt": "hi", "context": {"strategy": "summary", "steps": 4}}],
        collaboration_model={"type": "sequential", "rounds": 30},
    )
    world.submit(team)
    while len(world.history()) < 20:
        world.deliver(world.dispatcher.queue.popleft())
    kept = sorted(path for path in world.files.held if "summaries/" in path)
    for path in kept[1:]:
        del world.files.held[path]
    asked = len(speaker.asked)
    world.settle()
    assert "Summary so far:\nsummary 1" in speaker.asked[asked]
    assert world.summary().status is TaskStatus.COMPLETED

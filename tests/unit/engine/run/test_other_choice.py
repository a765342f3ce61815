"""What a turn does when its model cannot answer: another prompt, another profile, or an error that says why."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from roboco.domain.history.step import TaskStep
from roboco.domain.status import TaskStatus
from roboco.domain.stream.item import ReasoningDelta
from roboco.errors import ModelError
from roboco.ports.model import CallProgress, Request
from roboco.ports.snapshot import TurnProgress
from tests.support.memory_ports.journeys import member
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.reader import items_of, read_items
from tests.support.memory_ports.world import SWEEP_INTERVAL, TASK, World, team_of, world_parts

UNREACHABLE = ModelError("connection", "model 'm' cannot be reached", True)


def failed(code: str, tokens: tuple[int, int] = (0, 0), message: str = "no", retryable: bool = False) -> ScriptedReply:
    """Return a reply that fails with this error before its first text."""
    error = ModelError(code, message, retryable)
    error.tokens_in, error.tokens_out = tokens
    return ScriptedReply(error=error)


def run(
    script: Callable[[Request], ScriptedReply] | list[ScriptedReply],
    models: dict[str, Any] | None = None,
    text: str = "go",
    **agent: Any,
) -> World:
    """Run a task of one agent with this script of its model, and return its world."""
    replies: Iterator[ScriptedReply] = iter(script if isinstance(script, list) else ())
    world = World(world_parts(script if callable(script) else lambda request: next(replies)))
    world.submit(team_of(agents=[member("one", **agent)], models=models or {"m": {"model": "m"}}), text)
    world.settle()
    return world


def run_for(world: World, seconds: float) -> None:
    """Run the world for this number of seconds."""
    until = world.clock.now() + seconds
    while world.clock.now() < until:
        world.drain()
        world.clock.move(SWEEP_INTERVAL)
        world.sweep()
    world.drain()


def last_step(world: World) -> TaskStep:
    return world.history()[-1]


def with_fallback(**profile: Any) -> dict[str, Any]:
    """Return two profiles, of which the second answers in place of the first."""
    return {
        "m": {"model": "m", "default": True, "fallback": ["other"], "price_in": 100_000, **profile},
        "other": {"model": "other", "price_in": 1_000_000, "price_out": 1_000_000},
    }


TWO_ROUNDS: dict[str, Any] = {"collaboration_model": {"type": "sequential", "rounds": 3}}


def test_a_prompt_that_is_too_long_is_asked_once_more_with_half_of_it() -> None:
    answers = iter([says("word " * 2000), says("word " * 2000), failed("context_length", (70, 0)), says("short")])
    world = World(world_parts(lambda request: next(answers)))
    world.submit(team_of(agents=[member("one")], models={"m": {"model": "m"}}, **TWO_ROUNDS))
    world.settle()
    refused, shorter = world.given.model.requests[-2:]
    assert len(str(shorter.messages)) <= 0.6 * len(str(refused.messages))
    assert last_step(world).text == "short"
    assert last_step(world).metadata["usage"]["tokens_in"] == 70 + 10, "the refused request counts"


def test_a_prompt_with_nothing_to_leave_out_is_not_asked_again_and_counts_once() -> None:
    world = run([failed("context_length", (70, 0), "too long")])
    error = last_step(world).error
    assert error is not None
    assert (error.code, error.message) == ("context_length", "one: too long")
    assert len(world.given.model.requests) == 1
    assert world.summary().tokens_in == 70


@pytest.mark.parametrize("code", ["status", "content_filter", "model"])
def test_another_profile_does_not_answer_for_an_error_of_the_request(code: str) -> None:
    world = run([failed(code)], with_fallback())
    assert [request.profile.model for request in world.given.model.requests] == ["m"]
    assert world.summary().status is TaskStatus.FAILED


def test_another_profile_answers_once_an_outage_has_lasted_too_long() -> None:
    world = World(
        world_parts(lambda request: ScriptedReply(error=UNREACHABLE) if request.profile.model == "m" else says("ok"))
    )
    world.submit(team_of(agents=[member("one")], models=with_fallback(outage_timeout=30)))
    run_for(world, 20)
    assert {request.profile.model for request in world.given.model.requests} == {"m"}
    run_for(world, 30)
    assert world.summary().status is TaskStatus.COMPLETED
    assert "outage of m has lasted" in last_step(world).metadata["fallback"]["reason"]


def test_reasoning_is_published_apart_from_the_text() -> None:
    reply = replace(says("one two"), reasoning=("hm ", "so "))
    worlds = {mode: run(lambda request: reply, {"m": {"model": "m", "reasoning": mode}}) for mode in ("keep", "stream")}
    for world in worlds.values():
        assert last_step(world).text == "one two"
        assert last_step(world).metadata["reasoning"] == "hm so "
    types = {mode: [record["type"] for record in world.published()] for mode, world in worlds.items()}
    assert "reasoning_chunk" not in types["keep"]
    world = worlds["stream"]
    items = items_of(world.published(), lambda *args: world.histories.read(TASK, *args))
    assert "".join(item.data.text for item in items if isinstance(item.data, ReasoningDelta)) == "hm so "
    assert read_items(items).steps == world.history(), "a reader of text ignores it"


def test_text_after_the_reasoning_of_a_failed_request_is_published() -> None:
    """Chunks of one attempt have one sequence of numbers: a number that was used is dropped."""
    models = with_fallback(reasoning="stream")
    world = run([replace(failed("quota"), reasoning=("a", "b", "c")), says("one two three")], models)
    chunks = [record["text"] for record in world.published() if record["type"] == "content_chunk"]
    assert "".join(chunks) == last_step(world).text == "one two three"
    assert last_step(world).metadata["chunks"] == 6


@pytest.mark.parametrize(
    ("reply", "code", "words"),
    [
        (ScriptedReply(finish_reason="empty"), "empty", "said nothing"),
        (ScriptedReply(finish_reason="length", reasoning=("hm",)), "length", "before its first word"),
        (ScriptedReply(finish_reason="content_filter"), "content_filter", "said nothing, because a filter"),
        (ScriptedReply(("Here",), finish_reason="content_filter"), "content_filter", "in the middle of its answer"),
        (ScriptedReply(refusal="I cannot."), "refused", "refuses to answer: I cannot."),
        (ScriptedReply(("Sorry",), refusal="I cannot."), "refused", "refuses to answer: I cannot."),
    ],
)
def test_a_reply_that_is_no_answer_fails_the_task_and_says_why(reply: ScriptedReply, code: str, words: str) -> None:
    world = run([reply])
    error = last_step(world).error
    assert error is not None
    assert error.code == code
    assert words in error.message
    assert last_step(world).text == "".join(reply.texts), "the text is kept"
    assert world.summary().status is TaskStatus.FAILED
    assert world.summary().tokens_in == 10


def test_the_heartbeat_records_how_far_a_model_call_has_come() -> None:
    worlds: list[World] = []
    seen: list[TurnProgress | None] = []

    def think() -> None:
        [stream] = worlds[0].given.model.streams
        stream.progress = CallProgress(2, 3, 5.0, 60.0, "https://x.com/v1", 700)
        worlds[0].heartbeat.beat()
        task = worlds[0].engine.tasks.task_store.load(TASK, 1)
        assert task is not None
        seen.append(task.attempt.progress)

    worlds.append(World(world_parts(lambda request: ScriptedReply(("text",), meanwhile=think))))
    models = {"m": {"model": "m", "base_url": "https://x.com/v1?key=abc"}}
    worlds[0].submit(team_of(agents=[member("one")], models=models))
    worlds[0].settle()
    assert seen == [TurnProgress("'m' at https://x.com/v1", 2, 3, 5.0, 60.0, 700)]
    after = worlds[0].engine.tasks.task_store.load(TASK, 1)
    assert after is None or after.attempt.progress is None

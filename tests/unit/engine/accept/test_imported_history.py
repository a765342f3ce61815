"""Imported messages: earlier messages of a user and of agents that become the first steps of a task."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roboco.domain.history.step import verify_chain
from roboco.domain.inbox.submission import MAX_IMPORTED_BYTES, MAX_IMPORTED_MESSAGES, parse_submission
from roboco.engine.coordinate.submit import submit
from roboco.errors import StateConflict, UsageError
from roboco.ports.model import Request
from tests.support.memory_ports.journeys import MANUAL, assert_whole
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import TASK, World, world_parts

TALK = [
    {"role": "user", "text": "Who are you?"},
    {"role": "assistant", "text": "An expert.", "agent": "expert"},
    {"role": "assistant", "content": "And I help."},
    {"role": "user", "text": "Good."},
]


def imported(history: list[dict[str, Any]] | None = None, **fields: Any) -> World:
    """Return a world with a task that begins with these messages, and waits."""
    world = MANUAL.world()
    accept(world, TALK if history is None else history, **fields)
    world.settle()
    return world


def accept(world: World, history: list[dict[str, Any]], prompt: str = "go", **fields: Any) -> None:
    submission = {"task_id": TASK, "team": "desk", "prompt": prompt, "history": history} | fields
    world.retry_until_answered(lambda: submit(world.engine, parse_submission(submission), MANUAL.team))


def test_metadata_of_the_task_and_of_the_prompt_are_in_their_steps() -> None:
    world = imported(agent="expert", by="alice", title="A talk", context={"a": 1})
    first, prompt = world.history()[0], world.history()[4]
    assert (first.metadata["title"], first.metadata["context"], first.metadata["prompt"]) == ("A talk", {"a": 1}, "go")
    assert first.metadata["by"] == "alice"
    assert "agent" not in first.metadata
    assert (prompt.metadata["agent"], prompt.metadata["by"]) == ("expert", "alice")
    assert world.history()[5].agent_name == "expert"


def test_same_submission_is_the_same_task_and_other_content_is_a_conflict() -> None:
    world = imported()
    before = world.history()
    world.clock.move(5)
    accept(world, TALK)
    world.settle()
    assert world.history() == before
    for other in ([], TALK[:3], [*TALK, TALK[0]], [TALK[0] | {"text": "x"}, *TALK[1:]]):
        with pytest.raises(StateConflict):
            accept(world, other)
    assert world.history() == before


WRONG: dict[str, tuple[Any, str]] = {
    "no list": ("hello", "history: "),
    "another role": ([{"role": "system", "text": "x"}], "history.0.role: "),
    "a blank text": ([{"role": "user", "text": " "}], "is empty; leave the message out"),
    "two texts": ([{"role": "user", "text": "x", "content": "y"}], "history.0.content: no such argument"),
    "an agent of a user": ([{"role": "user", "text": "x", "agent": "helper"}], "only a message with the role"),
    "an unknown agent": (
        [{"role": "assistant", "text": "x", "agent": "absent"}],
        "history.0.agent: no agent 'absent'",
    ),
    "too many": ([{"role": "user", "text": "x"}] * (MAX_IMPORTED_MESSAGES + 1), "history: "),
    "too many bytes": ([{"role": "user", "text": "ä" * 30_000}] * 80, f"at most {MAX_IMPORTED_BYTES} are possible"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_messages_are_refused_before_anything_is_stored(name: str) -> None:
    history, expected = WRONG[name]
    world = MANUAL.world()
    with pytest.raises(UsageError) as refused:
        accept(world, history)
    assert expected in str(refused.value)
    assert refused.value.code == "invalid"
    assert not world.files.held
    assert not world.histories.held


MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("user"), "text": st.text(min_size=1).filter(str.strip)}),
        st.fixed_dictionaries(
            {"role": st.just("assistant"), "content": st.text(min_size=1).filter(str.strip)},
            optional={"agent": st.sampled_from(["helper", "expert"])},
        ),
    ),
    max_size=12,
)


@settings(max_examples=15, deadline=None)
@given(history=MESSAGES)
def test_any_conversation_is_imported_word_by_word(history: list[dict[str, Any]]) -> None:
    def script(request: Request) -> ScriptedReply:
        return says("done")

    world = World(world_parts(script))
    accept(world, history)
    world.settle()
    texts = [step.text for step in world.history() if step.is_imported]
    assert texts == [message.get("text", message.get("content")) for message in history]
    assert verify_chain(world.histories.lines(TASK)) == len(history) + 2
    assert_whole(world, "")

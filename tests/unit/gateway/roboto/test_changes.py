"""Deltas of roboto.ai's client: whatever it has missed, the content that it appends is the session's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from roboto.ai.agent_session import AgentSession

from roboco.client import session as sessions
from roboco.errors import UsageError
from roboco.gateway.roboto.answers import session_record
from roboco.gateway.roboto.changes import RESTARTED, Changes, GivenToken, Reader, changes_since, drops_void_text
from roboco.ports.model import Request
from tests.support.gateway_roboto import client_view, polling_session, server_view
from tests.support.memory_ports.journeys import JOURNEYS, member
from tests.support.memory_ports.model import ScriptedReply
from tests.support.memory_ports.watch import Crash, make_call
from tests.support.memory_ports.world import TASK, World, team_of, world_parts

READER = Reader("rt-me-")


class Viewer:
    """A client of roboto.ai that polls a world."""

    def __init__(self, world: World, reader: Reader = READER, load_messages: bool = True) -> None:
        self.world = world
        self.reader = reader
        self.seen: list[Changes] = []
        whole = sessions.session(world.engine, TASK)
        self.session: AgentSession = polling_session(
            session_record(whole, False, "team", None if load_messages else 0), self._delta
        )

    def check(self) -> None:
        """Poll, and assert that the client holds the messages of the session, without a hole."""
        before = len(self.session.messages)
        self.session.refresh()
        indices = sorted(self.seen[-1].messages)
        assert indices == list(range(indices[0], indices[0] + len(indices))) if indices else True
        assert not indices or indices[0] <= before
        whole = sessions.session(self.world.engine, TASK)
        assert client_view(self.session) == server_view(whole)

    def _delta(self, token: str) -> dict[str, Any]:
        at = GivenToken.parse(token)
        changes = changes_since(at, sessions.poll(self.world.engine, TASK, str(at.at)), self.reader)
        self.seen.append(changes)
        if self.reader.drops_void_text and changes.reset_from is not None:
            del self.session.messages[changes.reset_from :]  # as the client does from 0.62.0 on
        return changes.data()


def run_with_polls(name: str, gaps: list[int], load_messages: bool) -> Viewer:
    """Run a journey. Poll after as many calls of ports as the gaps say, again and again, and at the end."""
    viewers: list[Viewer] = []
    left = [gaps[0]]
    polls = [0]

    def watch(port: str, call: Any) -> Any:
        answer = call()
        if viewers and port.startswith(("turns", "task_store", "calls", "logs")):
            left[0] -= 1
            if left[0] <= 0:
                polls[0] += 1
                left[0] = gaps[polls[0] % len(gaps)]
                world.watch = make_call
                viewers[0].check()
                world.watch = watch
        return answer

    journey = JOURNEYS[name]
    world = journey.world(watch)
    world.submit(journey.team, **journey.options)
    viewers.append(Viewer(world, load_messages=load_messages))
    journey.run(world, submitted=True)
    world.watch = make_call
    viewers[0].check()
    return viewers[0]


@given(st.sampled_from(sorted(JOURNEYS)), st.lists(st.integers(1, 12), min_size=1, max_size=6), st.booleans())
def test_a_client_that_polls_at_any_moments_holds_the_session(name: str, gaps: list[int], whole: bool) -> None:
    run_with_polls(name, gaps, whole)


def restarted(reader: Reader, texts: list[tuple[str, ...]], polls_between: bool = True) -> Viewer:
    """Run a turn whose first attempt is lost after its text was given. Each attempt streams the next texts.

    The client polls twice during the first attempt, and again at the end; or else also during the second one.
    """
    worlds: list[World] = []
    viewers: list[Viewer] = []
    attempts: list[int] = []

    def script(request: Request) -> ScriptedReply:
        attempts.append(1)

        def meanwhile() -> None:
            if len(attempts) == 1 or polls_between:
                viewers[0].check()
                viewers[0].check()
            if len(attempts) == 1:
                raise Crash

        return ScriptedReply(texts[min(len(attempts), len(texts)) - 1], meanwhile=meanwhile)

    worlds.append(World(world_parts(script)))
    world = worlds[0]
    world.submit(team_of(agents=[member("only")]))
    viewers.append(Viewer(world, reader))
    world.drain()
    world.clock.move(100)
    world.sweep()
    if polls_between:
        viewers[0].check()
    world.settle()
    viewers[0].check()
    return viewers[0]


@pytest.mark.parametrize("polls_between", [True, False])
@pytest.mark.parametrize("second", [("other ", "words"), ("half",)])
def test_void_text_of_a_restarted_turn_is_marked_in_its_message(second: tuple[str, ...], polls_between: bool) -> None:
    viewer = restarted(READER, [("half ", "said"), second], polls_between)
    content = viewer.session.messages[1].content
    codes = [getattr(block, "error_code", None) for block in content]
    assert codes.count(RESTARTED) == 1
    after = content[codes.index(RESTARTED) + 1 :]
    assert "".join(getattr(block, "text", "") for block in after) == "".join(second)


def test_a_turn_that_writes_the_same_text_again_goes_on_from_it() -> None:
    viewer = restarted(READER, [("half ", "said"), ("half ", "said", " now")], polls_between=False)
    assert [getattr(block, "text", "") for block in viewer.session.messages[1].content] == ["half said", " now"]


@pytest.mark.parametrize("polls_between", [True, False])
def test_a_newer_client_drops_void_text_itself(polls_between: bool) -> None:
    viewer = restarted(Reader("rt-me-", drops_void_text=True), [("half ", "said"), ("other",)], polls_between)
    resets = [changes.reset_from for changes in viewer.seen if changes.reset_from is not None]
    codes = [getattr(block, "error_code", None) for block in viewer.session.messages[1].content]
    assert (resets, RESTARTED in codes) == ([1], False)


@pytest.mark.parametrize(
    ("requester", "drops"),
    [
        ('{"roboto_tool_version":"0.45.0"}', False),
        ('{"roboto_tool_version":"0.62.0"}', True),
        ('{"roboto_tool_version":"1.0"}', True),
        ('{"roboto_tool_version":"new"}', False),
        ("[]", False),
        ("[" * 10_000, False),
        ("", False),
    ],
)
def test_the_version_of_a_client_says_whether_it_drops_void_text(requester: str, drops: bool) -> None:
    assert drops_void_text(requester) is drops


@given(st.text(max_size=40))
def test_a_token_is_parsed_or_refused(text: str) -> None:
    try:
        token = GivenToken.parse(text)
    except UsageError:
        return
    assert GivenToken.parse(str(token)) == token

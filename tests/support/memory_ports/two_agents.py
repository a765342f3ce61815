"""Two agents that speak in turn, in a world in which something happens while the first one answers."""

from collections.abc import Callable

from roboco.ports.model import Request
from tests.support.memory_ports.journeys import member, speaker
from tests.support.memory_ports.model import ScriptedReply, says
from tests.support.memory_ports.world import World, team_of, world_parts

TWO_AGENTS = team_of(agents=[member("first"), member("second")], collaboration_model={"type": "sequential"})


def world_of_two_agents(act: Callable[[World], None], texts: tuple[str, ...] = ("half ", "a word")) -> World:
    """Return a world in which `act` is called in the middle of the first answer."""
    worlds: list[World] = []

    def script(request: Request) -> ScriptedReply:
        if any(message["content"] == "shorter" for message in request.messages):
            return says(f"{speaker(request)} is brief")
        return ScriptedReply(texts, meanwhile=lambda: act(worlds[0]))

    worlds.append(World(world_parts(script)))
    worlds[0].submit(TWO_AGENTS)
    return worlds[0]

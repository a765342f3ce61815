"""The scripted model server in a container: `python -m tests.deployment.containers.model`."""

import signal
import sys

from tests.deployment.containers.shop import TURNS
from tests.support import desk
from tests.support.servers.model_server import ModelServer, Reply, Request

PORT = 8000


def answer(request: Request) -> Reply:
    """Add, pay, add, and so on, until the last turn. For `roboco demo`: write, and follow the critic's rule.

    For the tutorial: work at its desk.
    """
    if "support desk" in request.system or "friendly letter" in request.system:
        return desk.answer(request)
    if "add" not in request.tools:
        return Reply(
            text="It smells of salt." if "Write about the smell" in str(request.messages) else "The sea is dark."
        )
    place = request.count("assistant")
    if place + 1 >= TURNS:
        return Reply(text="All is done now.", interval=0.3)
    call = ("pay", {}) if place % 2 else ("add", {"a": place, "b": 1})
    return Reply(text="I do the next thing now.", tool_calls=[call], interval=0.3)


def main() -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with ModelServer(PORT, host="0.0.0.0", keep=0) as server:
        server.script(answer)
        print("ready", flush=True)
        signal.pause()


if __name__ == "__main__":
    main()

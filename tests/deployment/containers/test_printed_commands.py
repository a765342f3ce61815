"""The commands of deploy/README.md for Compose, as printed, in a fresh clone."""

import pytest

from tests.deployment.containers.clone import clone, docker_hub, run
from tests.deployment.containers.deployment import printed_commands
from tests.deployment.containers.images import attempt
from tests.deployment.containers.room import Room

pytestmark = [pytest.mark.slow, pytest.mark.workers]
UP = "docker compose up --build --detach --wait\n"


def test_the_printed_commands_end_with_an_answering_gateway(room: Room, images: dict[str, str]) -> None:
    """From a clone without `.env`: digests, passwords, build, `up`, `doctor`, the first key, and a request with it."""
    before, up, after = printed_commands().partition(UP)
    assert up
    create, curl = after[: after.index("curl ")], after[after.index("curl ") :]
    with docker_hub(room, images) as certificate, clone(room) as folder, room.online():
        attempt(room, lambda: run(room, folder, before + up, {"SSL_CERT_FILE": certificate}))
        printed = run(room, folder, create)
        assert "ok   queue roboco.tools" in printed
        assert "FAIL" not in printed
        assert '"tenant":"acme"' in run(room, folder, curl.replace("KEY", printed.split()[-1]))

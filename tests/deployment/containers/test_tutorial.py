"""The tutorial's deployment, by its commands as they are printed, in a fresh clone, with a model server on the host."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.deployment.containers.clone import clone, docker_hub, run
from tests.deployment.containers.images import attempt
from tests.deployment.containers.model import PORT
from tests.deployment.containers.room import Room
from tests.support.desk import LETTER
from tests.support.documents import GUIDES, example, examples
from tests.support.stack import until

pytestmark = [pytest.mark.slow, pytest.mark.workers]


@pytest.fixture
def model(room: Room) -> Iterator[subprocess.Popen[str]]:
    """Yield a model server on the host of Docker."""
    server = room.popen_outside(sys.executable, "-m", "tests.deployment.containers.model")
    try:
        yield server
    finally:
        server.terminate()
        server.communicate(timeout=30)


@pytest.mark.usefixtures("model")
def test_the_desk_of_the_tutorial_works_in_production(room: Room, compose_images: dict[str, str]) -> None:
    """From a clone without `.env`: the demo runs, a refund waits, is approved, and is paid by the shop's own worker."""
    with docker_hub(room, compose_images) as certificate, clone(room) as folder:
        desk = folder / "support"
        desk.mkdir()
        for one in examples("file"):
            if one.page == GUIDES / "tutorial.md":
                (desk / one.name).write_text(one.text)
        exported = {"OPENAI_BASE_URL": f"http://host.docker.internal:{PORT}/v1", "SSL_CERT_FILE": certificate}
        deploy = example("step", "compose") + example("step", "try")
        with room.online():
            printed = attempt(room, lambda: run(room, desk, deploy, exported))
        assert "It smells of salt" in printed
        asked = f"curl --silent --fail -H 'Authorization: Bearer {printed.split()[-1]}' http://127.0.0.1:8080/v1/me"
        assert '"scopes"' in run(room, folder, asked)
        run(room, folder, example("step", "production"))
        why = "docker compose exec gateway roboco why refund-17"
        until(lambda: "roboco approve" in run(room, folder, why), 180, lambda: run(room, folder, why))
        printed = run(room, folder, example("step", "production-approve"))
        assert "".join(LETTER) in " ".join(printed.split())
        assert "order 17: 24.9 euros" in printed

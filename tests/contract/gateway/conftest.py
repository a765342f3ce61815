"""A gateway over the ports in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.gateway_rest import RestWorld, rest_world


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestWorld]:
    """Yield a gateway over an empty deployment."""
    with rest_world(tmp_path) as started:
        yield started


@pytest.fixture(scope="session")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the OpenAPI document, whose making takes seconds."""
    with rest_world(tmp_path_factory.mktemp("rest")) as started:
        return started.client.get("/v1/openapi.json").json()

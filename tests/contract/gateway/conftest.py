"""A gateway over the ports in memory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_rest import RestWorld, rest_world


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[RestWorld]:
    """Yield a gateway over an empty deployment."""
    with rest_world(tmp_path) as started:
        yield started

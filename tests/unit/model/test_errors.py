"""The words for failures of model servers."""

import pytest

from roboco.model.errors import container_hint


@pytest.mark.parametrize(
    ("address", "in_container", "named"),
    [
        ("http://localhost:11434/v1", True, True),
        ("http://127.0.0.1:11434/v1", True, True),
        ("http://localhost:11434/v1", False, False),
        ("http://models:11434/v1", True, False),
        (None, True, False),
    ],
)
def test_a_container_that_calls_itself_is_named_the_address_of_its_host(
    address: str | None, in_container: bool, named: bool
) -> None:
    assert ("host.docker.internal" in container_hint(address, in_container)) is named

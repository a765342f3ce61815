"""The name under which each contract test stores its data."""

import uuid

import pytest


@pytest.fixture
def prefix() -> str:
    """Return a prefix that no other test has."""
    return f"test-{uuid.uuid4().hex[:12]}"

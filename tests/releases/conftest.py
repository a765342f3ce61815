"""Fixtures of the recorded releases."""

from tests.contract.conftest import prefix
from tests.contract.redis.conftest import client

__all__ = ["client", "prefix"]

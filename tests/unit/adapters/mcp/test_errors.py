"""The reason of an MCP server's failure contains no secrets."""

import pytest
from mcp import MCPError

from roboco.adapters.mcp.errors import failure_reason

SECRET_VALUE = "canary-of-the-shop"


@pytest.mark.parametrize("error", [MCPError, lambda code, message: OSError(message)])
def test_a_secret_across_the_truncated_end_of_a_reason_is_redacted(error: type[MCPError]) -> None:
    for length in range(480, 505):
        assert "cana" not in failure_reason(error(-1, "x" * length + SECRET_VALUE), (SECRET_VALUE,))

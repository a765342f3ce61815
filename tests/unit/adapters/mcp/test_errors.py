"""Why an MCP server failed, without secrets."""

import pytest
from mcp import MCPError

from roboco.adapters.mcp.errors import failure_reason

SECRET = "canary-of-the-shop"


@pytest.mark.parametrize("error", [MCPError, lambda code, message: OSError(message)])
def test_a_secret_across_the_end_of_a_reason_is_covered(error: type[MCPError]) -> None:
    for length in range(480, 505):
        assert "cana" not in failure_reason(error(-1, "x" * length + SECRET), (SECRET,))

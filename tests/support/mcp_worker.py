"""A process that uses an MCP server as a worker does, with a child that inherits its connection: `COMMAND...`."""

import os
import shlex
import sys
import time

from roboco.domain.team.mcp_server import McpServer
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.servers import McpServers


def hold(servers: McpServers, server: McpServer) -> None:
    """Keep a connection open, in this process and in a child that inherits it, until killed."""
    servers.list_tools(server, "shop_")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    time.sleep(60)


if __name__ == "__main__":
    command = sys.argv[1:]
    named = McpServer.model_validate({"command": command, "tools": ["process", "one"]})
    hold(McpServers((shlex.join(command),), confinement=Confinement("off")), named)

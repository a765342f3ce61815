"""A process that uses an MCP server as a worker does, and forks: `hold COMMAND...` or `fork COMMAND...`."""

import os
import shlex
import sys
import time

from roboco.domain.team.mcp_server import McpServer
from roboco.tools.mcp.confinement import Confinement
from roboco.tools.mcp.servers import McpServers


def never() -> bool:
    """Return False: the caller does not cancel."""
    return False


def hold(servers: McpServers, server: McpServer) -> None:
    """Keep a connection open, in this process and in a child that inherits it, until killed."""
    servers.list_tools(server, "shop_")
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    print(child, flush=True)
    time.sleep(60)


def fork(servers: McpServers, server: McpServer) -> None:
    """Print which server processes answer the parent, a child, and the parent again."""
    before = servers.call(server, "process", {}, "k", never)[0]
    child = os.fork()
    if child == 0:
        print("child", servers.call(server, "process", {}, "k", never)[0], flush=True)
        servers.close()
        os._exit(0)
    os.waitpid(child, 0)
    print("parent", before, servers.call(server, "process", {}, "k", never)[0], flush=True)
    servers.close()


if __name__ == "__main__":
    command = sys.argv[2:]
    named = McpServer.model_validate({"command": command, "tools": ["process", "one"]})
    {"hold": hold, "fork": fork}[sys.argv[1]](McpServers((shlex.join(command),), confinement=Confinement("off")), named)

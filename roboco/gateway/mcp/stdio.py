"""stdio: the MCP server for the program that starts it, by its standard input and output."""

import asyncio
from dataclasses import replace

from mcp.server.stdio import stdio_server

from roboco.client.orchestrator import Orchestrator
from roboco.gateway.gateway import Gateway
from roboco.gateway.mcp.task_extension import mcp_server
from roboco.gateway.mcp.team_tools import Context
from roboco.gateway.principal import LOCAL, Principal
from roboco.gateway.settings import load_gateway_settings


def run_server() -> None:
    """Serve until the standard input ends. Raises UsageError if a setting is wrong."""
    asyncio.run(_serve())


async def _serve() -> None:
    gateway = Gateway(Orchestrator(), load_gateway_settings())
    caller = replace(LOCAL, by="mcp")

    async def find_caller(_: Context) -> Principal:
        return caller

    try:
        server = mcp_server(gateway, find_caller)
        async with stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
    finally:
        gateway.close()

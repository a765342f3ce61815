"""An MCP server with a tool for each team, at `/mcp` of the gateway and by stdio: `roboco mcp serve`.

`team_tools.py` holds the tools and resources, and `task_extension.py` tasks of MCP. `routes.py` serves them by
streamable HTTP, without sessions.
"""

"""Parts that tests share: scripted servers, ports in memory, worker processes, and MCP servers. No test lives here."""

"""Tools of MCP servers, over the official `mcp` package (the extra `roboco[mcp]`)."""

"""MCP servers as real processes, well-behaved and hostile, over stdio and over HTTP."""

"""Names of the tools that every team has without declaring them, and the prefixes of tools that callers declare."""

HANDOFF = "handoff"
DELEGATE = "delegate"
ARTIFACT_READ = "artifact_read"
ARTIFACT_WRITE = "artifact_write"
ARTIFACT_LIST = "artifact_list"
MEMORY_SEARCH = "memory_search"
PYTHON = "python"

BUILTIN_TOOLS = frozenset({HANDOFF, DELEGATE, ARTIFACT_READ, ARTIFACT_WRITE, ARTIFACT_LIST, MEMORY_SEARCH, PYTHON})

CLIENT_PREFIX = "client_"
"""The prefix of tools that the client runs."""
GOAL_PREFIX = "achieve_"
"""The prefix of tools by which an agent achieves a goal."""

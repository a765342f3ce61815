"""Names of the tools that teams have without declaring them, and the prefixes of tools that callers declare."""

HANDOFF = "handoff"
DELEGATE = "delegate"
ARTIFACT_READ = "artifact_read"
ARTIFACT_WRITE = "artifact_write"
ARTIFACT_LIST = "artifact_list"
MEMORY_SEARCH = "memory_search"
PYTHON = "python"
REMEMBER = "remember"
RECALL = "recall"
FORGET = "forget"

MEMORY_TOOLS = frozenset({REMEMBER, RECALL, FORGET})
"""The tools of teams that declare a memory. In other teams these names are free."""
BUILTIN_TOOLS = MEMORY_TOOLS | {HANDOFF, DELEGATE, ARTIFACT_READ, ARTIFACT_WRITE, ARTIFACT_LIST, MEMORY_SEARCH, PYTHON}

CLIENT_PREFIX = "client_"
"""The prefix of tools that the client runs."""
GOAL_PREFIX = "achieve_"
"""The prefix of tools by which an agent achieves a goal."""

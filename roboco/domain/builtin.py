"""The names of the tools that every team has without declaring them."""

HANDOFF = "handoff"
ARTIFACT_READ = "artifact_read"
ARTIFACT_WRITE = "artifact_write"
ARTIFACT_LIST = "artifact_list"
MEMORY_SEARCH = "memory_search"

BUILTIN = frozenset({HANDOFF, ARTIFACT_READ, ARTIFACT_WRITE, ARTIFACT_LIST, MEMORY_SEARCH})

"""Size limits of files that are read as a whole."""

MAX_SHOWN_BYTES = 8 * 1024 * 1024
"""The largest file that is sent to a model, in bytes."""
MAX_SHOWN_FILES = 8
"""The largest number of files in one request. The newest ones are sent."""
MAX_TEXT_BYTES = 1024 * 1024
"""The largest number of bytes of a text that are searched, or read for an agent in one call."""

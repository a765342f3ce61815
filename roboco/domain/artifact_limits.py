"""How large files may be that are read whole."""

MAX_IMAGE = 8 * 1024 * 1024
"""The largest image that is sent to a model, in bytes."""
MAX_IMAGES = 8
"""How many images one request sends at most, the newest ones."""
MAX_TEXT = 1024 * 1024
"""How many bytes of a text are searched, or read for an agent at a time."""

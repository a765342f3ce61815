"""Size limits of files that are read as a whole."""

MAX_IMAGE_BYTES = 8 * 1024 * 1024
"""The largest image that is sent to a model, in bytes."""
MAX_IMAGES = 8
"""The largest number of images in one request. The newest ones are sent."""
MAX_TEXT_BYTES = 1024 * 1024
"""The largest number of bytes of a text that are searched, or read for an agent in one call."""

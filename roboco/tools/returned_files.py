"""returned_files: the files in the result of a function, before they are stored as artifacts."""

from typing import Any

from roboco.domain.history.part import MAX_MEDIA_FILES, Media
from roboco.ports.file import MAX_FILES_BYTES, File


def split_files(result: Any) -> tuple[Any, tuple[Media, ...]]:
    """Return the result with a description in place of each file, and the files.

    A file that cannot be kept has the reason in `left_out`: the call may have had its effect, and has ended.
    """
    values = [result] if isinstance(result, File) else result
    if not isinstance(values, list | tuple) or not any(isinstance(value, File) for value in values):
        return result, ()
    parts: list[Any] = []
    media: list[Media] = []
    left = MAX_FILES_BYTES
    for place, value in enumerate(values):
        if isinstance(value, File):
            found = _media(place, value, left) if len(media) < MAX_MEDIA_FILES else _TOO_MANY
            if isinstance(found, Media):
                media.append(found)
                left -= len(found.data)
            described = {"type": "file", "name": value.name}
            parts.append(described if isinstance(found, Media) else described | {"left_out": found})
        else:
            parts.append(value)
    return parts, tuple(media)


_TOO_MANY = f"a result keeps at most {MAX_MEDIA_FILES} files"


def _media(place: int, file: File, left: int) -> Media | str:
    """Return the file, or why it cannot be kept."""
    try:
        data = file.content
    except (OSError, ValueError) as error:
        return f"its path cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
    if len(data) > left:
        return f"the files of a result have at most {MAX_FILES_BYTES} bytes together"
    return Media(place, "file", file.mime_type, data, file.name)

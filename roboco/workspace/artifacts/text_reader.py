"""Reads a part of a long text in UTF-8, with one piece in memory at a time."""

import codecs
from collections.abc import Iterator


class TextReader:
    """Reads a text in pieces. `has_more` is True if the text continues after the part that was read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self.has_more = False

    def characters(self, offset: int, limit: int) -> str:
        """Return at most `limit` characters from `offset` on. Raise UnicodeDecodeError if the text is not UTF-8."""
        taken: list[str] = []
        skip, left = offset, limit
        for text in self._texts():
            part = text[skip:]
            skip = max(0, skip - len(text))
            taken.append(part[:left])
            if len(part) > left:
                self.has_more = True
                break
            left -= len(part)
        return "".join(taken)

    def _texts(self) -> Iterator[str]:
        for piece in self._pieces:
            yield self._decode.decode(piece)
        yield self._decode.decode(b"", final=True)

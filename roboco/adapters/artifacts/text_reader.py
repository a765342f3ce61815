"""TextReader: a part of a long text in UTF-8, of which no more than a piece is held at a time."""

import codecs
from collections.abc import Iterator


class TextReader:
    """Reads a text that comes in pieces; `more` says whether there is more after what was read."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self.more = False

    def characters(self, offset: int, limit: int) -> str:
        """At most `limit` characters after `offset` ones; UnicodeDecodeError if it is no UTF-8 up to there."""
        taken: list[str] = []
        skip, left = offset, limit
        for text in self._texts():
            part = text[skip:]
            skip = max(0, skip - len(text))
            taken.append(part[:left])
            if len(part) > left:
                self.more = True
                break
            left -= len(part)
        return "".join(taken)

    def _texts(self) -> Iterator[str]:
        for piece in self._pieces:
            yield self._decode.decode(piece)
        yield self._decode.decode(b"", final=True)

"""WordWrap: running text that arrives in pieces, broken into lines between words; and `break_lines` for whole texts.

A terminal breaks a line in the middle of a word. The end of the last word is known only when the next piece arrives, so
this word is held back until then, or until `flush`.
"""

import re

from rich.cells import cell_len
from rich.text import Text

TAB = "    "


class WordWrap:
    """Keeps the column of the cursor; a line has one column less than the terminal."""

    def __init__(self) -> None:
        self.column = 0
        """Cells to the left of the cursor. What is held back does not count."""
        self._spaces = ""
        self._word = ""

    def feed(self, text: str, columns: int) -> str:
        """Return the part of the text that is certain now, with line ends for a terminal of `columns` columns."""
        out: list[str] = []
        for sign in text.replace("\t", TAB):
            if sign == "\n":
                out.append(f"{self.flush(columns)}\n")
                self.column, self._spaces = 0, ""
            elif sign.isspace():
                out.append(self.flush(columns))
                self._spaces += sign
            elif cell_len(sign) > 1:  # a line may be broken between characters of these scripts
                out.append(self.flush(columns))
                self._word = sign
            else:
                self._word += sign
                if cell_len(self._word) >= columns - 1:
                    out.append(self.flush(columns))
        return "".join(out)

    def flush(self, columns: int) -> str:
        """Return the word that was held back."""
        if not self._word:
            return ""
        spaces, word, self._spaces, self._word = self._spaces, self._word, "", ""
        if self.column and self.column + len(spaces) + cell_len(word) >= columns:
            self.column = cell_len(word)
            return f"\n{word}"
        self.column += len(spaces) + cell_len(word)
        return spaces + word


def break_lines(text: Text, columns: int, indent: int) -> list[Text]:
    """Return a whole text as lines for a terminal of `columns` columns, the further ones with an indent.

    A word that is longer than a line is left to the terminal, so that it can be copied.
    """
    column, breaks = 0, []
    for word in re.finditer(r"\s*\S+\s*", text.plain):
        if column and column + cell_len(word[0].rstrip()) >= columns:
            breaks.append(word.start())
            column = indent
        column += cell_len(word[0])
    first, *rest = text.divide(breaks)
    lines = [first, *(Text(" " * indent) + line for line in rest)]
    for line in lines:
        line.rstrip()
    return lines

"""A program for the sandbox: writes a part of a document's text into `text.json`: read_document.py KIND OFFSET LIMIT.

Its source is passed to an interpreter of any version. The packages that it imports are beside it, in `readers.zip`. It
reads page by page, or sheet by sheet, and no further than to the end of the part.
"""

import json
import os
import sys
from collections.abc import Iterator

DOCUMENT = "document"


def pdf_texts() -> Iterator[str]:
    """Yield the text of each page that has one: a scanned page has none."""
    from pypdf import PdfReader

    for number, page in enumerate(PdfReader(DOCUMENT).pages, 1):
        if text := page.extract_text().strip():
            yield f"(page {number})\n{text}\n\n"


def docx_texts() -> Iterator[str]:
    """Yield the document as Markdown."""
    import mammoth  # type: ignore[import-untyped, unused-ignore]
    from markdownify import markdownify

    with open(DOCUMENT, "rb") as file:
        yield markdownify(mammoth.convert_to_html(file, convert_image=lambda _: []).value, heading_style="ATX")


def xlsx_texts() -> Iterator[str]:
    """Yield the rows of each sheet, with tabs between the cells."""
    from openpyxl import load_workbook

    with open(DOCUMENT, "rb") as file:
        for sheet in load_workbook(file, read_only=True, data_only=True).worksheets:
            yield f"(sheet {sheet.title})\n"
            for row in sheet.iter_rows(values_only=True):
                yield "\t".join("" if cell is None else str(cell) for cell in row).rstrip() + "\n"


def html_texts() -> Iterator[str]:
    """Yield the page as Markdown, without scripts and styles."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    with open(DOCUMENT, "rb") as file:
        page = BeautifulSoup(file, "html.parser")
    for element in page(["script", "style", "template", "noscript"]):
        element.decompose()
    yield MarkdownConverter(heading_style="ATX").convert_soup(page).strip()


def main(kind: str, offset: int, limit: int) -> None:
    """Write the part of the text."""
    sys.path.insert(0, os.path.abspath("readers.zip"))
    texts = {"pdf": pdf_texts, "docx": docx_texts, "xlsx": xlsx_texts, "html": html_texts}[kind]
    read, part, length = 0, "", 0
    for text in texts():
        part += text[max(0, offset - read) :][: limit + 1 - length]
        read, length = read + len(text), len(part)
        if length > limit:
            break
    with open("text.json", "w", encoding="utf-8", errors="replace") as file:
        json.dump({"text": part[:limit], "more": length > limit}, file, ensure_ascii=False)


if __name__ == "__main__":
    main(ARGUMENTS[0], *map(int, ARGUMENTS[1:]))  # type: ignore[name-defined]  # noqa: F821 - the worker writes it before

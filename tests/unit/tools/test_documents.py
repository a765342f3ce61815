"""Documents: `artifact_read` gives their text, within the limits of the sandbox."""

import io
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docx import Document
from matplotlib import rc_context
from matplotlib.figure import Figure
from openpyxl import Workbook
from pypdf import PdfReader, PdfWriter

from roboco.domain.history.part import ToolCall, ToolOutcome
from roboco.domain.team.team import Team
from roboco.ports.tools import ToolContext
from roboco.tools import documents
from roboco.tools.sandbox.limits import MIB, SandboxLimits
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.workspace.artifacts.store import NewArtifact, write_artifact
from tests.support import toolboxes
from tests.support.memory_ports.workspace import MemoryFiles, MemoryHistories
from tests.unit.domain.steps import TASK

needs_sandbox = pytest.mark.skipif(bool(Sandbox().refusal()), reason="needs the sandbox")
TEAM = Team.model_validate({"name": "t", "agents": [{"name": "one", "prompt": "hi", "tools": ["artifact_read"]}]})


def read(name: str, data: bytes, **args: Any) -> ToolOutcome:
    """Return the outcome of `artifact_read` of a file with this content."""
    files = MemoryFiles()
    artifact = write_artifact(files, TASK, NewArtifact(name), data)
    box = toolboxes.toolbox_of(files, MemoryHistories(), (), Path(tempfile.mkdtemp()))
    call = ToolCall(id="tc_1", tool_name="artifact_read", args={"uri": artifact.uri} | args)
    return box.run(TEAM, call, None, ToolContext(TASK, "one", "tc_1", "k", 1))


def pdf(*pages: str) -> bytes:
    """Return a PDF of matplotlib, with a text on each page."""
    writer = PdfWriter()
    for text in pages:
        drawn = io.BytesIO()
        with rc_context({"pdf.fonttype": 42}):
            figure = Figure(figsize=(6, 2))
            figure.text(0.1, 0.5, text)
            figure.savefig(drawn, format="pdf")
        writer.append(PdfReader(drawn))
    data = io.BytesIO()
    writer.write(data)
    return data.getvalue()


def docx() -> bytes:
    """Return a document of Word with a heading, a paragraph and a table."""
    document, data = Document(), io.BytesIO()
    document.add_heading("Offer 17", 1)
    document.add_paragraph("Für Grüße: 3 Stück.")
    table = document.add_table(rows=2, cols=2)
    for place, text in enumerate(("article", "price", "tea", "3.50")):
        table.cell(place // 2, place % 2).text = text
    document.save(data)
    return data.getvalue()


def xlsx() -> bytes:
    """Return a workbook of two sheets."""
    book, data = Workbook(), io.BytesIO()
    first = book.active
    assert first is not None
    first.title = "Prices"
    first.append(["article", "price", None, "note"])
    first.append(["tea", 3.5])
    book.create_sheet("Empty")
    book.save(data)
    return data.getvalue()


HTML = (
    b"<html><head><style>p {}</style><script>alert(1)</script></head><body><h1>News</h1><p>Tea is <b>up</b>.</p></body>"
)


@needs_sandbox
@pytest.mark.parametrize(
    ("name", "write", "expected"),
    [
        (
            "report.pdf",
            lambda: pdf("The keeper was Annegret.", "Page two"),
            ["(page 1)\nThe keeper was Annegret.", "Page two"],
        ),
        ("offer.docx", docx, ["# Offer 17", "Für Grüße: 3 Stück.", "| tea | 3.50 |"]),
        ("prices.xlsx", xlsx, ["(sheet Prices)\narticle\tprice\t\tnote\ntea\t3.5\n(sheet Empty)\n"]),
        ("page.html", lambda: HTML, ["# News\n\nTea is **up**."]),
    ],
)
def test_artifact_read_gives_the_text_of_a_document(name: str, write: Callable[[], bytes], expected: list[str]) -> None:
    outcome = read(name, write())
    assert outcome.result.error is None
    text = outcome.result.result["text"]
    assert [part for part in expected if part not in text] == [], text
    assert "alert" not in text
    assert not outcome.result.result["more"]
    assert outcome.artifacts == ()


@needs_sandbox
def test_artifact_read_parses_a_document_once_for_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = list[str]()
    run = Sandbox.run
    monkeypatch.setattr(Sandbox, "run", lambda self, code, *rest: [runs.append(code), run(self, code, *rest)][1])  # type: ignore[func-returns-value]
    monkeypatch.setattr(documents, "WINDOW", 50)
    monkeypatch.setattr(documents, "MAX_WINDOWS", 1)
    monkeypatch.setattr(documents, "_WINDOWS", {})
    words = " ".join(f"word{number}" for number in range(12))
    data = f"<p>{words}</p>".encode()
    found, more = "", True
    while more:
        part = read("words.html", data, offset=len(found), limit=20).result.result
        found, more = found + part["text"], part["more"]
    assert (found, len(runs), len(documents._WINDOWS)) == (words, -(-len(words) // 50), 1)
    beyond = read("words.html", data, offset=9_000).result.result
    assert (beyond["text"], beyond["more"]) == ("", False)


def test_artifact_read_returns_the_source_of_a_page() -> None:
    assert read("page.html", HTML, source=True).result.result["text"] == HTML.decode()


def bomb(document: bytes, name: str) -> bytes:
    """Return the document with a part that unpacks to ten million nested elements."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(document)) as source, zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as target:
        for part in source.namelist():
            target.writestr(part, b"<a>" * 10_000_000 if part == name else source.read(part))
    return written.getvalue()


@needs_sandbox
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("bomb.docx", lambda: bomb(docx(), "word/document.xml")),
        ("bomb.xlsx", lambda: bomb(xlsx(), "xl/worksheets/sheet1.xml")),
        ("deep.html", lambda: b"<div>" * 1_000_000),
        ("cut.pdf", lambda: pdf("text")[:-200]),
    ],
)
def test_a_hostile_document_is_an_error_or_a_text_within_the_limits(
    name: str, data: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolboxes, "Sandbox", partial(Sandbox, SandboxLimits(seconds=2, memory=128 * MIB)))
    result = read(name, data()).result
    assert result.is_error or len(result.result["text"]) <= 16_000
    if result.is_error:
        assert "cannot be read as a document: " in str(result.error)


def test_a_document_that_is_too_large_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 10)
    assert "at most 10 are read as a document" in str(read("report.pdf", b"%PDF-1.7\nxyz").result.error)


def test_a_document_without_the_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_PACKAGES", ("no-such-package",))
    documents._readers.cache_clear()
    try:
        assert "roboco[documents]" in str(read("report.pdf", b"%PDF-1.7\n").result.error)
    finally:
        documents._readers.cache_clear()


@needs_sandbox
def test_a_pdf_without_text_is_attached_for_models_that_see() -> None:
    outcome = read("scan.pdf", pdf(""))
    assert outcome.result.result["text"] == ""
    assert [artifact.name for artifact in outcome.artifacts] == ["scan.pdf"]


@pytest.mark.parametrize(("name", "data"), [("a.png", b"\x89PNG\r\n\x1a\n"), ("a.wav", b"RIFF\0\0\0\0WAVEfmt ")])
def test_an_image_or_a_sound_is_attached(name: str, data: bytes) -> None:
    outcome = read(name, data)
    assert outcome.result.result["uri"] == f"file://artifacts/{name}"
    assert [artifact.name for artifact in outcome.artifacts] == [name]

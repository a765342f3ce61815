"""documents: the text of PDF, DOCX, XLSX and HTML files, which libraries read in the sandbox.

A document is hostile input: a small file may unpack to gigabytes, or keep a parser busy for hours. So the libraries run
as code of a model does, within the limits of the sandbox. They are pure Python, and reach it as a zip.
"""

import io
import json
import tempfile
import threading
import zipfile
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, Final

from roboco.domain.history.part import Artifact
from roboco.errors import UsageError
from roboco.ports.tools import ToolContext
from roboco.ports.workspace import Files
from roboco.tools.sandbox.limits import MIB
from roboco.tools.sandbox.result import RunResult
from roboco.tools.sandbox.sandbox import Sandbox
from roboco.workspace.artifacts.store import iter_pieces

MAX_DOCUMENT_BYTES: Final = 32 * MIB
"""The largest document that is read."""
WINDOW: Final = 256_000
"""Characters that are read at a time."""
MAX_WINDOWS: Final = 8
_WINDOWS: Final[dict[tuple[str | None, str, int], dict[str, Any]]] = {}
_LOCK: Final = threading.Lock()
_PACKAGES: Final = (
    *("pypdf", "mammoth", "cobble", "openpyxl", "et-xmlfile", "markdownify", "beautifulsoup4", "soupsieve", "six"),
    "typing-extensions",
)
_TYPES: Final = {"application/pdf": "pdf", "text/html": "html"}
_ENDINGS: Final = {".pdf": "pdf", ".docx": "docx", ".xlsx": "xlsx"}
_PROGRAM: Final = package_files("roboco.tools.sandbox").joinpath("read_document.py").read_text(encoding="utf-8")
_END_REASONS: Final = {
    "time": "it took too long",
    "memory": "it needs too much memory",
    "cancelled": "it was cancelled",
}


def document_kind(artifact: Artifact) -> str | None:
    """Return the kind of document, or None for any other file. A document in a zip is known by its name."""
    kind = _TYPES.get(artifact.mime_type.partition(";")[0])
    return kind or _ENDINGS.get(f".{artifact.name.rpartition('.')[2].lower()}")


def read_document(
    files: Files, sandbox: Sandbox, artifact: Artifact, context: ToolContext, part: tuple[int, int]
) -> dict[str, Any]:
    """Return `part` of the document's text, an offset and a number of characters, and whether there is `more`.

    The process keeps WINDOW characters of the documents that were read last, so that the next part needs no sandbox.
    Raise UsageError if it has none, is too large, exceeds the limits of the sandbox, or if this worker cannot read it.
    """
    if artifact.size > MAX_DOCUMENT_BYTES:
        raise UsageError(
            f"{artifact.name} has {artifact.size} bytes, at most {MAX_DOCUMENT_BYTES} are read as a document"
        )
    begin = part[0] // WINDOW * WINDOW
    content = artifact.sha256 or context.call_id
    key, within = (document_kind(artifact), content, begin), part[0] - begin
    with _LOCK:
        window = _WINDOWS.get(key)
    if window is None:
        window = _read_window(files, sandbox, artifact, context, begin)
        with _LOCK:
            _WINDOWS[key] = window
            if len(_WINDOWS) > MAX_WINDOWS:
                del _WINDOWS[next(iter(_WINDOWS))]
    text = window["text"][within : within + part[1]]
    return {"text": text, "more": window["more"] or within + len(text) < len(window["text"])}


def _read_window(
    files: Files, sandbox: Sandbox, artifact: Artifact, context: ToolContext, begin: int
) -> dict[str, Any]:
    """Return the WINDOW characters of the document's text from this one on, and whether there is `more`."""
    readers = _readers()
    if refusal := sandbox.refusal():
        raise UsageError(f"{artifact.name} cannot be read here: {refusal}")
    code = f"ARGUMENTS = {[document_kind(artifact), str(begin), str(WINDOW)]!r}\n{_PROGRAM}"
    with tempfile.TemporaryDirectory(prefix="roboco-document-") as folder:
        document, packages = Path(folder, "document"), Path(folder, "readers.zip")
        packages.write_bytes(readers)
        with document.open("wb") as file:
            file.writelines(iter_pieces(files, context.task_id, artifact))
        inputs = {"document": document, "readers.zip": packages}
        with sandbox.run(code, inputs, lambda: context.cancelled) as result:
            return _text_of(artifact, result)


def _text_of(artifact: Artifact, result: RunResult) -> dict[str, Any]:
    written = next((file.path for file in result.files if file.name == "text.json"), None)
    if result.exit_code == 0 and written is not None:
        found: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
        return {"text": str(found["text"]), "more": bool(found["more"])}
    last = (result.output.strip().splitlines() or ["no reason"])[-1][:300]
    raise UsageError(f"{artifact.name} cannot be read as a document: {_END_REASONS.get(result.end_reason, last)}")


@lru_cache(maxsize=1)
def _readers() -> bytes:
    """Return the packages in a zip of about 1 MB. Raise UsageError if one is not installed."""
    data = io.BytesIO()
    try:
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as packed:
            for name in _PACKAGES:
                for path in distribution(name).files or ():
                    if path.suffix == ".py":
                        packed.write(str(path.locate()), str(path))
    except PackageNotFoundError as error:
        raise UsageError(
            f"documents need the extra roboco[documents] on the tools workers: {error} is missing"
        ) from None
    return data.getvalue()

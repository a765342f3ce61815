"""The files of the web view: complete, without ways for code from data, and served with a strict policy."""

import asyncio
import re
from hashlib import sha256

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco.gateway.request_log import RequestLogMiddleware
from roboco.gateway.web.routes import router
from tests.support.javascript import ASSETS

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


def test_our_code_is_small_and_the_vendored_library_is_that_of_its_publisher() -> None:
    assert sum(path.stat().st_size for path in OWN) <= 142_500
    assert sha256((ASSETS / "vendor/preact.js").read_bytes()).hexdigest() == PREACT
    assert "Apache License" in (ASSETS / "vendor/LICENSE-htm").read_text()
    assert "MIT" in (ASSETS / "vendor/LICENSE-preact").read_text()


def test_every_import_and_link_names_a_file() -> None:
    linked = set(re.findall(r"""(?:href|src)="ui/(.+?)\"""", (ASSETS / "index.html").read_text()))
    assert {path.name for path in OWN if path.suffix == ".css"} <= {name.rpartition("/")[2] for name in linked}
    assert all((ASSETS / name).is_file() for name in linked)
    for path in OWN:
        imported = re.findall(r"""^(?:import|export) (?:[^;]*? from )?"(.+?)";""", path.read_text(), re.MULTILINE)
        assert all((path.parent / name).is_file() for name in imported), (path, imported)


def test_our_code_leaves_no_way_for_markup_or_code_from_data() -> None:
    markup = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|dangerouslySetInnerHTML"
    code = r"\beval\(|new Function|javascript:|https?://(?!www\.w3\.org)"
    assert {path.name: found for path in OWN if (found := re.findall(f"{markup}|{code}", path.read_text()))} == {}


def test_files_are_served_with_a_strict_policy_and_revalidated(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    script = client.get("/ui/js/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["x-content-type-options"] == "nosniff"
    again = client.get("/ui/js/main.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["..%2froutes.py", "%2e%2e/routes.py", "js", "nothing.js"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    assert client.get(f"/ui/{path}").status_code == 404

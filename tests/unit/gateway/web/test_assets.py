"""The files of the web view: small, complete, with one vendored library, and served with a strict policy."""

import gzip
import re
from hashlib import sha256
from importlib import resources
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco.gateway.problem import Problem
from roboco.gateway.web.routes import router

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
    return TestClient(app)


def test_our_code_does_not_grow() -> None:
    """Bounds that hold today. The goal is 100 KB, 30 KB compressed."""
    contents = [path.read_bytes() for path in OWN]
    assert sum(map(len, contents)) <= 124_000
    assert sum(len(gzip.compress(content, 9)) for content in contents) <= 50_000


def test_the_vendored_library_is_that_of_its_publisher_and_has_its_licences() -> None:
    assert sha256((ASSETS / "vendor/preact.js").read_bytes()).hexdigest() == PREACT
    assert "Apache License" in (ASSETS / "vendor/LICENSE-htm").read_text()
    assert "MIT" in (ASSETS / "vendor/LICENSE-preact").read_text()


def test_every_import_and_link_names_a_file() -> None:
    for path in OWN:
        text = path.read_text()
        imported = re.findall(r"""^(?:import|export) (?:[^;]*? from )?"(.+?)";""", text, re.MULTILINE)
        linked = re.findall(r"""(?:href|src)="ui/(.+?)\"""", text)
        names = [path.parent / name for name in imported] + [ASSETS / name for name in linked]
        assert all(name.is_file() for name in names), (path, names)


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
    script = client.get("/ui/js/main.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.headers["x-content-type-options"] == "nosniff"
    again = client.get("/ui/js/main.js", headers={"If-None-Match": script.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["vendor/LICENSE-htm", "..%2froutes.py", "%2e%2e/routes.py", "js", "nothing.js"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    with pytest.raises((Problem, httpx2.HTTPStatusError)):
        client.get(f"/ui/{path}").raise_for_status()

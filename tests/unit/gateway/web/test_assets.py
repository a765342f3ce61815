"""The files of the web view: small, complete, with one vendored library, and served with a strict policy."""

import gzip
import re
import runpy
import subprocess
import sys
from hashlib import sha256
from importlib import resources
from pathlib import Path

import brotli
import httpx2
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from roboco.gateway.problem import Problem
from roboco.gateway.web import content_coding
from roboco.gateway.web.bundle import bundle
from roboco.gateway.web.routes import read_sources, router
from tests.unit.gateway.web.test_explanations import node

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


def served() -> dict[str, bytes]:
    """Return our code as a browser loads it: without the library and the icon."""
    return {
        path: text.encode()
        for path, text in bundle(read_sources()).items()
        if path.endswith((".js", ".css", ".html")) and "vendor" not in path
    }


OPERATIONS = "js/operations.js"
"""The script that only operators load, when they open its page."""


def test_a_browser_loads_at_most_100_kb_of_our_code_and_30_kb_with_brotli() -> None:
    """All browsers of the page accept brotli. The other bounds hold today."""
    files = served()
    operations = files.pop(OPERATIONS)
    assert sum(map(len, files.values())) <= 100_000
    assert sum(map(_with_brotli, files.values())) <= 30_000
    assert sum(len(gzip.compress(content, 9)) for content in files.values()) <= 32_000
    assert len(operations) <= 14_000
    assert _with_brotli(operations) <= 5_000
    assert sum(len(path.read_bytes()) for path in OWN) <= 129_500


def _with_brotli(content: bytes) -> int:
    return len(brotli.compress(content, quality=11))


def test_a_browser_loads_few_files() -> None:
    assert served().keys() == {"index.html", "js/app.js", "js/streams.js", OPERATIONS, "css/app.css"}


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
    assert re.findall(r'from "(.+?)"', files["js/app.js"]) == ["../vendor/preact.js", "./streams.js"]
    assert re.findall(r'from "(.+?)"', files[OPERATIONS]) == ["../vendor/preact.js", "./app.js", "./streams.js"]


def test_the_joined_modules_are_one_that_node_accepts(tmp_path: Path) -> None:
    for name in ("js/app.js", "js/streams.js", OPERATIONS):
        program = tmp_path / "program.mjs"
        program.write_bytes(served()[name])
        subprocess.run([node(), "--check", str(program)], check=True, timeout=60)


def test_modules_are_joined_after_their_imports_and_without_comments() -> None:
    main = """// main: an example.

import { html } from "../vendor/preact.js";
import { post } from "./streams.js";
import { age, money } from "./values.js";

/** Say it. */
const say = () => {
  const said = age(1); // seconds
  return html`<p>
    <b>${said} // ${money}<//> http://a/b
  </p>`;
};
"""
    modules = {
        "js/main.js": main,
        "js/values.js": 'import { html } from "../vendor/preact.js";\nexport const age = 1;\nexport const money = 2;\n',
        "js/streams.js": 'import { key } from "./api.js";\nexport const post = key;\n',
        "js/api.js": "export const key = 1;\n",
        "js/operations.js": 'import { age } from "./values.js";\nimport { key } from "./api.js";\nconst old = age;\n',
    }
    styles = {
        f"css/{name}.css": f"/* {name} */\n.{name} {{\n  color: red;\n}}\n"
        for name in ("base", "task", "lanes", "inspector")
    }
    files = bundle(modules | styles)
    assert files["js/app.js"] == (
        'import { html } from "../vendor/preact.js";\nimport { post } from "./streams.js";\n'
        "const age = 1;\nconst money = 2;\nconst say = () => {\nconst said = age(1);\n"
        "return html`<p>\n<b>${said} // ${money}<//> http://a/b\n</p>`;\n};\nexport { age };\n"
    )
    assert files[OPERATIONS] == (
        'import { age } from "./app.js";\nimport { key } from "./streams.js";\nconst old = age;\n'
    )
    assert files["js/streams.js"] == "export const key = 1;\nexport const post = key;\n"
    assert files["css/app.css"].startswith(".base {\ncolor: red;\n}\n.task {")
    with pytest.raises(ValueError, match="declare the same names: age"):
        bundle(modules | styles | {"js/main.js": main + "const age = 1;\n"})


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
    [
        ("gzip, deflate, br, zstd", "br"),
        ("gzip, deflate", "gzip"),
        ("br;q=0, gzip", "gzip"),
        ("br;q=0.5, gzip;q=0.8", "gzip"),
        ("BR; q=1.0", "br"),
        ("*", "br"),
        ("*;q=0, gzip;q=0.1", "gzip"),
        ("br;q=0, *", "gzip"),
        ("identity, br;q=0.5", "identity"),
        ("brotli, x-gzip", "identity"),
        ("br;q=high, gzip;q=-1", "identity"),
        ("identity;q=0", "identity"),
        ("", "identity"),
    ],
)
def test_a_file_has_the_coding_that_the_client_prefers(client: TestClient, accepted: str, coding: str) -> None:
    """A client that excludes all codings gets the file, rather than an error."""
    answer = client.get("/ui/js/app.js", headers={"Accept-Encoding": accepted})
    assert answer.headers.get("content-encoding", "identity") == coding
    assert answer.headers["vary"] == "Accept-Encoding"
    assert answer.content == served()["js/app.js"]  # decoded by the client


def test_gzip_is_served_without_the_package_of_brotli(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    without = runpy.run_path(content_coding.__file__)
    assert list(without["ENCODERS"]) == ["gzip"]
    assert without["choose_coding"]("gzip, br", without["ENCODERS"]) == "gzip"


@pytest.mark.parametrize("path", ["vendor/LICENSE-htm", "..%2froutes.py", "%2e%2e/routes.py", "js", "nothing.js"])
def test_nothing_else_is_served(client: TestClient, path: str) -> None:
    with pytest.raises((Problem, httpx2.HTTPStatusError)):
        client.get(f"/ui/{path}").raise_for_status()

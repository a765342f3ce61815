"""The files of the web view: small, complete, with one vendored library, and served with a strict policy."""

import gzip
import json
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
from roboco.gateway.web.bundle import bundle, shorten_script
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


def test_our_code_has_at_most_100_kb_and_30_kb_with_brotli() -> None:
    """All that is served counts, for all pages. All browsers of the page accept brotli. The other bounds hold today."""
    files = served()
    assert sum(map(len, files.values())) <= 100_000
    assert sum(map(_with_brotli, files.values())) <= 30_000
    assert sum(len(gzip.compress(content, 9)) for content in files.values()) <= 34_000
    assert sum(len(path.read_bytes()) for path in OWN) <= 128_500


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


def test_spaces_that_are_left_out_change_nothing(tmp_path: Path) -> None:
    """The parser is the one inside Node. Its tree has the strings, the texts of templates, and the expressions."""
    modules = {path: text for path, text in read_sources().items() if path.startswith("js/")}
    pairs = [(text, shorten_script(text)) for text in (*modules.values(), *SCRIPTS)]
    assert all(len(short) < len(text) for text, short in pairs)
    indented = re.compile(r"^\s+|^// .*\n", re.MULTILINE)  # whitespace in templates, too
    program = tmp_path / "trees.cjs"
    program.write_text(TREES)
    given = json.dumps([[indented.sub("", text), short] for text, short in pairs])
    command = [node(), "--expose-internals", str(program)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []


TREES = """
const acorn = require("internal/deps/acorn/acorn/dist/acorn");
const rest = (name, value) => (name === "start" || name === "end" ? undefined : value);
const tree = text => JSON.stringify(acorn.parse(text, { ecmaVersion: "latest", sourceType: "module" }), rest);
const pairs = JSON.parse(require("node:fs").readFileSync(0, "utf8"));
console.log(JSON.stringify(pairs.filter(([text, short]) => tree(text) !== tree(short))));
"""
SCRIPTS = (
    "const a = b / c / d, e = b + +c - -d;\n",
    'const f = /[/"`{] : ,/g.test(a) ? { g: `x , ${ { y: [1 , 2] } } : }` } : a;\n',
    'const s = "a , b : \\" { c";\nfor (; ; ) break;\n',
    'const t = `\\` { : ${`in , ${ s ? `$ {` : "}" } : out`} } , $ `;\n',
    "const f = async (x,\n...rest\n) => {\nif (x) return [ x ]; else return -x ; };\n",
    "const g = x => !/[ ] , /.exec(x);\n",
)
"""Scripts with spaces that matter, and with signs that begin or end something else."""


def test_the_script_is_the_program_of_a_shared_worker(tmp_path: Path) -> None:
    """A worker has no document. If the script failed in it, tabs would not share their connections."""
    for path, text in bundle(read_sources()).items():
        if path.endswith(".js"):
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_text(text)
    program = (
        "globalThis.SharedWorkerGlobalScope = class {}; await import(process.argv[1]); process.exit(onconnect ? 0 : 2)"
    )
    command = [node(), "--no-warnings", "--experimental-default-type=module", "--input-type=module", "-e", program]
    subprocess.run([*command, (tmp_path / "js/app.js").as_uri()], check=True, timeout=60)


def test_modules_are_joined_after_their_imports_and_without_comments() -> None:
    main = """// main: an example.

import { html } from "../vendor/preact.js";
import { age, money } from "./values.js";
import { post } from "./streams.js";

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
        "js/values.js": 'import { render } from "../vendor/preact.js";\n'
        "export const age = 1;\nexport const money = 2;\n",
        "js/streams.js": 'import { age } from "./values.js";\nexport const post = age;\n',
    }
    styles = {
        f"css/{name}.css": f"/* {name} */\n.{name} :is(a, b) {{\n  color: red; margin: 0 -1px;\n}}\n"
        for name in ("base", "task", "lanes", "inspector")
    }
    files = bundle(modules | styles)
    assert files["js/app.js"] == (
        'import{html,render}from "../vendor/preact.js";\nconst age=1;\nconst money=2;\nconst post=age;\n'
        "const say=()=>{const said=age(1);\nreturn html`<p>\n<b>${said} // ${money}<//> http://a/b\n</p>`;};\n"
    )
    assert files["css/app.css"].startswith(".base :is(a,b){color:red;margin:0 -1px}.task :is(a,b){")
    with pytest.raises(ValueError, match="declare the same names: age"):
        bundle(modules | styles | {"js/main.js": main + "const age = 1;\n"})


def test_no_string_of_a_style_has_a_space_that_is_left_out() -> None:
    texts = re.findall(r'"([^"]*)"', "".join(path.read_text() for path in OWN if path.suffix == ".css"))
    assert texts
    assert not [text for text in texts if re.search(r"\s[{};,]|[{};,:]\s", text)]


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
        ("BR", "br"),
        ("brotli, x-gzip", "identity"),
        ("", "identity"),
    ],
)
def test_a_file_has_the_coding_that_the_client_prefers(client: TestClient, accepted: str, coding: str) -> None:
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

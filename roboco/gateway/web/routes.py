"""routes: the page of the web view and its files. They are public: all data need a caller, and come from the API.

browser ─► /            index.html ─► ui/js/app.js, ui/css/app.css, ui/vendor/...   (ETag: a release is seen at once)
           unknown file: 404         content policy: only files and requests of this origin
"""

import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePosixPath
from typing import Final

import brotli
from fastapi import APIRouter, Request
from starlette.responses import Response

from roboco.gateway.problem import not_found
from roboco.gateway.rest.endpoints import etag_of, has_match
from roboco.gateway.web.bundle import bundle

router = APIRouter(include_in_schema=False)
_TYPES: Final = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
"""The types of the files that are served. Others, such as licences, are only part of the package."""
_ENCODERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {"br": brotli.compress, "gzip": gzip.compress}
"""The compressions by their names, the best one first."""
_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}


@router.get("/")
async def page(request: Request) -> Response:
    """Return the page."""
    return _file(request, "index.html")


@router.get("/ui/{path:path}")
async def asset(request: Request, path: str) -> Response:
    """Return a file of the page."""
    return _file(request, path)


def _file(request: Request, path: str) -> Response:
    found = load_assets().get(path)
    if found is None:
        raise not_found(f"the web view has no file {path[:80]!r}")
    headers = _HEADERS | {"ETag": f"W/{found.etag}"}
    if has_match(request.headers.get("if-none-match"), found.etag):
        return Response(status_code=304, headers=headers)
    accepted = {one.partition(";")[0].strip() for one in request.headers.get("accept-encoding", "").split(",")}
    coding = next((name for name in _ENCODERS if name in accepted), None)
    if coding is None:
        return Response(found.content, headers=headers, media_type=found.media_type)
    return Response(found.encoded[coding], headers=headers | {"Content-Encoding": coding}, media_type=found.media_type)


@dataclass(frozen=True)
class _Asset:
    """A file of the page."""

    media_type: str
    content: bytes
    encoded: Mapping[str, bytes]
    """Its content in each coding."""
    etag: str


@cache
def load_assets() -> Mapping[str, _Asset]:
    """Return each file by its path. The first call in a process reads, joins and compresses them: 120 KB, 0.3 s."""
    return {path: _asset(path, text.encode()) for path, text in bundle(read_sources()).items()}


def _asset(path: str, content: bytes) -> _Asset:
    kind = _TYPES[PurePosixPath(path).suffix]
    encoded = {coding: encode(content) for coding, encode in _ENCODERS.items()}
    return _Asset(kind, content, encoded, etag_of(content))


def read_sources() -> dict[str, str]:
    """Return the text of each source file of the page, by its path."""
    return dict(_read_folder(resources.files("roboco.gateway.web") / "assets"))


def _read_folder(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read_folder(entry, f"{prefix}{entry.name}/")
        elif PurePosixPath(entry.name).suffix in _TYPES:
            yield f"{prefix}{entry.name}", entry.read_text("utf-8")

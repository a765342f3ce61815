"""Headers of files that browsers must not run."""

import pytest

from roboco.domain.history.part import Artifact
from roboco.gateway.rest.files import file_etag, file_headers, safe_type


@pytest.mark.parametrize(
    ("stored", "sent"),
    [
        ("text/plain", "text/plain; charset=utf-8"),
        ("image/png", "image/png"),
        ("video/mp4", "video/mp4"),
        ("text/html", "application/octet-stream"),
        ("TEXT/HTML; charset=utf-8", "application/octet-stream"),
        ("image/svg+xml", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("audio/x\r\nSet-Cookie: a=b\r\n\r\n<script>json", "application/octet-stream"),
        ("audio/x-wav", "audio/x-wav"),
    ],
)
def test_types_that_browsers_run_are_sent_as_bytes(stored: str, sent: str) -> None:
    assert safe_type(stored) == sent


def test_a_file_is_an_attachment_in_a_sandbox() -> None:
    headers = file_headers(Artifact(uri="file://artifacts/a.html", mime_type="text/html", sha256="ab", size=3))
    assert headers["Content-Disposition"] == 'attachment; filename="a.html"'
    assert "sandbox" in headers["Content-Security-Policy"]
    assert headers["ETag"] == '"ab"'


def test_a_file_without_a_digest_has_a_tag_of_its_name_and_size() -> None:
    assert file_etag(Artifact(uri="file://artifacts/a", mime_type="text/plain", size=3)) == '"a-3"'

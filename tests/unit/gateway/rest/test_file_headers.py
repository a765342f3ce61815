"""Headers of files that browsers must not run."""

import pytest

from roboco.gateway.rest.files import safe_type


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

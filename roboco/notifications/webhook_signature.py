"""Signatures of messages, by the Standard Webhooks specification."""

import base64
import binascii
import hashlib
import hmac

from roboco.errors import UsageError

_BASE64_PREFIX = "whsec_"


def signature_headers(notice_id: str, timestamp: int, body: bytes, secret: str) -> dict[str, str]:
    """Return the headers with which the receiver checks the sender and the time of the body, in Unix seconds.

    The signature is HMAC-SHA256 over id, timestamp and body, joined by full stops. A secret that begins with "whsec_"
    is base64, as in the specification; any other secret is used unchanged. Raise UsageError if the base64 is invalid.
    """
    content = f"{notice_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(_key(secret), content, hashlib.sha256).digest()).decode()
    return {
        "webhook-id": notice_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def _key(secret: str) -> bytes:
    if not secret.startswith(_BASE64_PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_BASE64_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("a webhook's secret begins with 'whsec_', but what follows is not base64") from None

"""access_keys: create, find, list and revoke the keys of the HTTP gateway.

    create ─► random id and secret ─► record with the secret's digest ─► file (create: an existing id is never replaced)
                     └── the text of the key, returned once
    revoke ─► read with version ─► record with `revoked_at` ─► file (replace: another write meanwhile is read again)

The workspace stores the keys, so they survive an emptied Redis. If a process dies before the text is printed, the key
is useless: the list shows it, and it can be revoked. If the store answers after the time-out, the same is true.
"""

import secrets
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from roboco.domain.access_key import DEFAULT_SCOPES, KEY_PREFIX, AccessKey, Scope, is_key_id
from roboco.domain.canonical_json import sha256
from roboco.domain.ids import check_tenant
from roboco.domain.paths import ACCESS_KEYS, access_key_path
from roboco.errors import CorruptHistory, NotFound, TransientError, UsageError
from roboco.ports.workspace import Files

ID_BYTES: Final = 6
SECRET_BYTES: Final = 32
PAGE_SIZE: Final = 1000
"""Names of keys that are read at a time."""
MAX_TRIES: Final = 8
"""Attempts to replace a file that other processes write at the same time."""


class CreatedKey(NamedTuple):
    """A new key."""

    text: str
    """The text that its owner sends, with the secret. It is stored nowhere."""
    key: AccessKey


def create_key(files: Files, options: dict[str, Any], now: datetime) -> CreatedKey:
    """Store a new key with these fields of AccessKey, and return it. Raise UsageError if a field is wrong."""
    secret = secrets.token_hex(SECRET_BYTES)
    given = {name: value for name, value in options.items() if value is not None}
    fields = {"scopes": DEFAULT_SCOPES} | given
    _check(fields, now)
    own = {"id": secrets.token_hex(ID_BYTES), "digest": sha256(secret), "created_at": now}
    try:
        key = AccessKey.model_validate(fields | own)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors())
        raise UsageError("; ".join(wrong)) from None
    if not files.create(access_key_path(key.id), _encoded(key)):
        raise TransientError(f"key {key.id} exists already; create another one")
    return CreatedKey(f"{KEY_PREFIX}_{key.id}_{secret}", key)


def find_key(files: Files, key_id: str) -> AccessKey | None:
    """Return the key, revoked and expired ones too, or None if there is none. Cost: one read of the workspace."""
    stored = files.get(access_key_path(key_id)) if is_key_id(key_id) else None
    return None if stored is None else _decoded(key_id, stored)


def keys(files: Files) -> Iterator[AccessKey]:
    """Yield all keys by id, revoked and expired ones too."""
    after = ""
    while True:
        names = files.names_after(ACCESS_KEYS, after, PAGE_SIZE)
        for key_id in (name.removesuffix(".json") for name in names):
            if (key := find_key(files, key_id)) is not None:
                yield key
        if len(names) < PAGE_SIZE:
            return
        after = names[-1]


def revoke_key(files: Files, key_id: str, now: datetime) -> AccessKey:
    """Revoke the key for ever, and return it. A repetition changes nothing. Raise NotFound if there is none."""
    for _ in range(MAX_TRIES):
        stored = files.get_versioned(access_key_path(key_id)) if is_key_id(key_id) else None
        if stored is None:
            raise NotFound(f"no key {key_id[:80]!r}; `roboco keys list` lists them")
        key = _decoded(key_id, stored.data)
        if key.revoked_at is not None:
            return key
        key = key.model_copy(update={"revoked_at": now})
        if files.replace(access_key_path(key_id), _encoded(key), stored.version):
            return key
    raise TransientError(f"key {key_id} is changed by other processes; revoke it again")


def _check(fields: dict[str, Any], now: datetime) -> None:
    known = [scope.value for scope in Scope]
    if unknown := [scope for scope in fields["scopes"] if scope not in known]:
        raise UsageError(f"scope {unknown[0]!r} does not exist; scopes: {', '.join(known)}")
    if fields.get("tenant") is not None:
        check_tenant(fields["tenant"])
        if Scope.OPERATE in fields["scopes"]:
            raise UsageError("the scope 'operate' concerns all tenants: leave the tenant out, or the scope")
    expires_at = fields.get("expires_at")
    if isinstance(expires_at, datetime) and (expires_at.tzinfo is None or expires_at <= now):
        raise UsageError(f"expires_at: must be a time in the future, with a time zone (found {expires_at.isoformat()})")


def _encoded(key: AccessKey) -> bytes:
    return key.model_dump_json(exclude_none=True).encode()


def _decoded(key_id: str, stored: bytes) -> AccessKey:
    """Return the key of a file. A file that another program wrote must not become a key of another id."""
    try:
        key = AccessKey.model_validate_json(stored)
    except ValidationError as error:
        raise CorruptHistory(
            f"key {key_id} cannot be read: restore its file from a backup, or move the file away and create another "
            "key for its caller"
        ) from error
    if key.id != key_id:
        raise CorruptHistory(f"the file of key {key_id} holds another key, and gives no access: move it away")
    return key

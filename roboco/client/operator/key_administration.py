"""KeyAdministration: the part of the client that manages the keys of the HTTP gateway, for operators alone."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Unpack

from roboco.client import access_keys
from roboco.client.access_keys import CreatedKey, utc_now
from roboco.client.audit import MAX_ID_CHARS, Act, audited
from roboco.client.options import KeyOptions
from roboco.domain.access_key import AccessKey
from roboco.engine.engine import Engine
from roboco.errors import Forbidden
from roboco.settings import Settings


class KeyAdministration:
    """Creates, finds, lists and revokes keys. A client with a tenant gets UsageError from each method."""

    settings: Settings
    """The settings of this client."""
    _engine: Engine

    def create_key(self, **options: Unpack[KeyOptions]) -> CreatedKey:
        """Store a new key of the HTTP gateway. Return it with its text, which cannot be read again.

        Raises UsageError if an option is wrong.
        """
        self._require_operator("keys")
        details: dict[str, object] = {}
        with self._audited("create_key", None, details):
            created = access_keys.create_key(self._engine.files, {**options}, utc_now())
            details["key"] = created.key.id
            return created

    def find_key(self, key_id: str) -> AccessKey | None:
        """Return the key with this id, revoked and expired ones too, or None. Redis is not asked."""
        self._require_operator("keys")
        return access_keys.find_key(self._engine.files, key_id)

    def keys(self) -> Iterator[AccessKey]:
        """Yield all keys, revoked and expired ones too."""
        self._require_operator("keys")
        return access_keys.keys(self._engine.files)

    def revoke_key(self, key_id: str, *, by: str | None = None) -> AccessKey:
        """Revoke a key for ever. Gateways refuse it within some seconds. Raises UsageError if there is none.

        The audit log names the caller `by`.
        """
        self._require_operator("keys")
        with self._audited("revoke_key", by, {"key": key_id[:MAX_ID_CHARS]}):
            return access_keys.revoke_key(self._engine.files, key_id, utc_now())

    def _audited(self, action: str, by: str | None, details: dict[str, object]) -> AbstractContextManager[None]:
        """Return the audit of an act of an operator; the caller is `by`, or that of the settings."""
        caller = self.settings.caller if by is None else by
        return audited(Act(action, caller, details=details), self.settings.audit_log)

    def _require_operator(self, things: str) -> None:
        """Raise UsageError for a client with a tenant."""
        if self.settings.tenant is not None:
            raise Forbidden(f"{things} are the operator's, not of tenant {self.settings.tenant!r} (ROBOCO_TENANT)")

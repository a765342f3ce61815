"""The function of ROBOCO_CREDENTIALS in tests. A test that needs other values patches `VALUES`."""

from roboco import TransientError, UsageError

VALUES: dict[tuple[str, str], object] = {
    ("acme", "crm"): "canary-crm-of-acme",
    ("globex", "crm"): "canary-crm-of-globex",
    ("", "crm"): "canary-crm-of-no-tenant",
    ("", "model-key"): "canary-model-of-no-tenant",
    ("acme", "model-key"): "canary-model-of-acme",
    ("globex", "model-key"): "canary-model-of-globex",
}
ASKED: list[tuple[str, str]] = []


def find(tenant: str, name: str) -> object:
    """Return the value, or raise it."""
    ASKED.append((tenant, name))
    value = VALUES[tenant, name]
    if callable(value):
        return value()
    if isinstance(value, BaseException):
        raise value
    return value


def sealed() -> UsageError:
    """Return the error of a store that names its reason."""
    return UsageError("the vault of acme is sealed")


def busy() -> TransientError:
    """Return the error of a store that may answer later."""
    return TransientError("the vault answers 503")

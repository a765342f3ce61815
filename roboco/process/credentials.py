"""credentials: the secrets of tenants, from the operator's function, at the moment of their use.

    tool, model or MCP server ─► known for less than MAX_AGE? ─no─► function(tenant, name), in a thread ─► value

A value lives in this process alone. It is in no record, message or log: the mask of its tenant replaces it.
"""

import asyncio
import pkgutil
import re
import threading
import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from roboco.domain.log_text import log_text
from roboco.domain.schema import CREDENTIAL_NAME
from roboco.errors import TransientError, UsageError
from roboco.process.credential_mask import CredentialMask

MAX_AGE: Final = 60.0
"""Seconds for which a value is used before the function is asked again."""
TIMEOUT: Final = 10.0
"""Seconds in which the function must answer."""
MAX_BYTES: Final = 16_384
"""Bytes of a value."""
MAX_KNOWN, MAX_KNOWN_OF_TENANT = 1000, 64
"""Values that a process knows; the oldest are forgotten first."""
MAX_RUNNING, MAX_RUNNING_OF_TENANT = 64, 4
"""Calls of the function at the same time: of a function that does not return, more threads would pile up."""
_NAME = re.compile(CREDENTIAL_NAME)


@dataclass(frozen=True)
class _Asked:
    """A call of the function, and its value when it has returned."""

    mask: CredentialMask
    """The mask of the tenant."""
    value: "Future[str]" = field(default_factory=Future)
    at: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> float:
        return time.monotonic() - self.at

    def serves(self, refused: str, new: bool) -> bool:
        """Return True if no newer call is needed. One that has not returned serves all who ask meanwhile."""
        is_current = not self.value.done() or not (new or self.value.result() == refused)
        return is_current and self.age < MAX_AGE


class Credentials:
    """The credentials that the function `package.module:name` returns. Safe for threads; each process makes its own.

    The function gets the tenant of the task, which no team, tool or message chooses, and a name. It decides by both.
    It is called at most once at a time for the same tenant and name. `get` raises UsageError if there is no such
    credential, and TransientError if there may be one later. `mask` removes the other secrets of the process.
    A tenant's values are masked for that tenant alone: a mask of all values would show each tenant those of others.
    """

    def __init__(self, function: str | None = None, mask: Callable[[str], str] = str) -> None:
        self._function = function
        self.mask = mask
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, str], _Asked] = OrderedDict()
        self._running: Counter[str] = Counter()
        self._masks: weakref.WeakValueDictionary[str, CredentialMask] = weakref.WeakValueDictionary()

    def get(self, tenant: str, name: str) -> str:
        """Return the value."""
        asked = self._asked(tenant, name)
        try:
            return asked.value.result(max(0.0, TIMEOUT - asked.age))
        except TimeoutError:
            raise _no_answer(tenant, name) from None

    async def get_async(self, tenant: str, name: str, refused: str = "", new: bool = False) -> str:
        """Return the value, in an event loop. Ask again for one that a server has `refused`, or if `new`."""
        asked = self._asked(tenant, name, refused, new)
        try:
            async with asyncio.timeout(max(0.0, TIMEOUT - asked.age)):
                return await asyncio.shield(asyncio.wrap_future(asked.value))
        except TimeoutError:
            raise _no_answer(tenant, name) from None

    def mask_of(self, tenant: str) -> CredentialMask:
        """Return the mask of the tenant. While it is held, or a value is known, it masks what the tenant has had."""
        with self._lock:
            return self._masks.setdefault(tenant, CredentialMask(self.mask))

    def _asked(self, tenant: str, name: str, refused: str = "", new: bool = False) -> _Asked:
        """Return the call of the function that has the value, or begin one."""
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{name[:80]!r} is no name of a credential: use up to 64 letters, digits, '_', '-' and '.'"
            )
        if self._function is None:
            raise UsageError(f"{_whose(tenant, name)}: ROBOCO_CREDENTIALS is not set on this worker")
        mask = self.mask_of(tenant)
        with self._lock:
            asked = self._known.get((tenant, name))
            if asked is not None and asked.serves(refused, new):
                self._known.move_to_end((tenant, name))
                return asked
            if self._running[tenant] >= MAX_RUNNING_OF_TENANT or self._running.total() >= MAX_RUNNING:
                raise TransientError(f"{_whose(tenant, name)}: too many calls of its function have not returned")
            self._running[tenant] += 1
            asked = self._known[tenant, name] = _Asked(mask)
            self._known.move_to_end((tenant, name))
            of_tenant = [key for key in self._known if key[0] == tenant]
            if len(of_tenant) > MAX_KNOWN_OF_TENANT or len(self._known) > MAX_KNOWN:
                del self._known[of_tenant[0] if len(of_tenant) > MAX_KNOWN_OF_TENANT else next(iter(self._known))]
        threading.Thread(target=self._ask, args=(tenant, name, asked), name="roboco-credential", daemon=True).start()
        return asked

    def _ask(self, tenant: str, name: str, asked: _Asked) -> None:
        """Call the function, and complete the call with its value or an error, which is not remembered."""
        value, error = self._call(tenant, name, asked.mask)
        with self._lock:
            self._running[tenant] -= 1
            self._running += Counter()  # forgets tenants without a call
            if error is not None and self._known.get((tenant, name)) is asked:
                del self._known[tenant, name]
            if error is None:
                known = [one.value for (owner, _), one in self._known.items() if owner == tenant]
                asked.mask.remember(value, {one.result() for one in known if one.done()})
        asked.value.set_result(value) if error is None else asked.value.set_exception(error)

    def _call(self, tenant: str, name: str, mask: CredentialMask) -> tuple[str, UsageError | TransientError | None]:
        """Return the value, or "" and why there is none. What other exceptions say may be secret: it is not shown."""
        final = False
        try:
            found = pkgutil.resolve_name(str(self._function))(tenant, name)
        except (UsageError, TransientError) as error:
            final, cause = isinstance(error, UsageError), log_text(mask(str(error)), 200)
        except BaseException as error:  # the operator's function may raise anything, and end its thread
            final, cause = isinstance(error, LookupError), f"its function raised {type(error).__name__}"
        else:
            if isinstance(found, str) and 0 < len(found.encode(errors="replace")) <= MAX_BYTES:
                return found, None
            what = f"a text of 1 to {MAX_BYTES} bytes"
            final, cause = True, "there is none" if found in (None, "") else f"its function did not return {what}"
        message = f"{_whose(tenant, name)}: {cause}"
        return "", UsageError(message) if final else TransientError(message)


def _whose(tenant: str, name: str) -> str:
    return f"credential {name!r} of tenant {tenant!r}" if tenant else f"credential {name!r} of tasks without a tenant"


def _no_answer(tenant: str, name: str) -> TransientError:
    return TransientError(f"{_whose(tenant, name)}: its function did not answer within {TIMEOUT:g} s")

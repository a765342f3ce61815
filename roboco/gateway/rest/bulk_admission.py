"""bulk_admission: the limits of a caller, for each task of its bulk control as for one request.

thread of the bulk control ─► event loop: admission of a single control ─► admitted
                                            └── Problem ─► error, which is the outcome of this task alone
"""

import asyncio
from collections.abc import Callable
from typing import Final

from roboco.errors import RobocoError, TransientError, UsageError
from roboco.gateway.gateway import Gateway
from roboco.gateway.principal import Principal
from roboco.gateway.problem import Problem

MAX_SECONDS: Final = 30.0
"""Seconds until an admission counts as failed: the gateway waits less for the servers that it asks."""


def bulk_admission(gateway: Gateway, caller: Principal, control: str) -> Callable[[str], None]:
    """Return the function that admits a task, for a thread. Call this in the event loop.

    It raises RobocoError with the code of the Problem. What was accepted before is not asked again.
    """
    loop = asyncio.get_running_loop()

    def admit(task_id: str) -> None:
        if control in ("retry", "fork"):
            admission = gateway.admit_retry(caller, task_id, lambda: False)
        elif control in ("send", "answer"):
            admission = gateway.admit_message(caller, lambda: False)
        else:
            return
        try:
            asyncio.run_coroutine_threadsafe(admission, loop).result(MAX_SECONDS)
        except Problem as refused:
            raise _error(refused) from refused
        except TimeoutError:
            raise TransientError("the limits of the caller cannot be read") from None

    return admit


def _error(refused: Problem) -> RobocoError:
    if refused.code == "unavailable":
        return TransientError(refused.detail)
    error = UsageError(f"{refused.detail}: {refused.remedy}")
    error.code = refused.code
    return error

"""Callers that tests choose, in place of keys: the gateway treats them as callers with keys in all other respects."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import FastAPI
from starlette.datastructures import Headers

from roboco.domain.access_key import CallerLimits
from roboco.gateway.authentication import Authenticator
from roboco.gateway.principal import Principal

UNLIMITED: Final = {"limits": CallerLimits(), "tenant_limits": CallerLimits()}
"""Settings of a gateway that counts no callers, and so needs no Redis."""
ChooseCaller = Callable[[Headers], Principal]
"""Returns the caller of a request by its headers, or raises Problem."""


class ChosenCallers(Authenticator):
    """Finds callers as a test chooses."""

    def __init__(self, choose: ChooseCaller) -> None:
        self._choose = choose

    async def principal(self, scope: Mapping[str, Any]) -> Principal:
        """Return the caller of the request."""
        return self._choose(Headers(scope=dict(scope)))


def choose_callers(app: FastAPI, choose: ChooseCaller) -> None:
    """Let a function choose the caller of each request to the application."""
    app.state.gateway.authenticator = ChosenCallers(choose)

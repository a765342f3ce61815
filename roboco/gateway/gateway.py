"""Gateway: what all routes of an application share. Routes get it with the dependency `TheGateway`."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Request

from roboco.client.orchestrator import Orchestrator
from roboco.client.task import Task
from roboco.errors import CorruptHistory, Erased, Overloaded, RobocoError, StateConflict, TransientError, UsageError
from roboco.gateway.authentication import Authenticator
from roboco.gateway.bodies.body_budget import BodyBudget
from roboco.gateway.calls import Calls, Turns
from roboco.gateway.idempotency import NewTaskId
from roboco.gateway.key_cache import KeyCache
from roboco.gateway.limits import CallerLimiter
from roboco.gateway.principal import Principal
from roboco.gateway.problem import Problem
from roboco.gateway.request_log import record_created
from roboco.gateway.settings import GatewaySettings
from roboco.gateway.streams.live_response import PING_SECONDS, OpenStreams
from roboco.gateway.streams.task_list_source import TaskLists

Created = TypeVar("Created")
MAX_PIECES: Final = 24
"""Pieces of files that are read or wait for a thread: fewer than their line holds, so that lookups of files fit in."""
MAX_PIECES_OF_OWNER: Final = 8
"""Those of one owner: the downloads of the others do not wait behind all of its downloads."""


class Gateway:
    """A client of Roboco for all tenants, and the limits of this process. It holds no state of a task."""

    def __init__(self, orchestrator: Orchestrator, settings: GatewaySettings) -> None:
        self.orchestrator = orchestrator
        self.settings = settings
        self.calls = Calls(settings.call_timeout)
        self.authenticator = Authenticator(
            settings, KeyCache(orchestrator.operator.find_key, self.calls), self.calls.tokens
        )
        self.limits = CallerLimiter(orchestrator.caller_limits, settings, self.calls)
        self.pieces = Turns(MAX_PIECES, MAX_PIECES_OF_OWNER)
        """Held while a piece of a file is read. Further downloads wait for their turn, whatever their number."""
        self.bodies = BodyBudget()
        """The bytes of the large responses that are being sent."""
        self.closing = asyncio.Event()
        """Set when the process is about to exit: streams end at an event then."""
        self.streams = OpenStreams(PING_SECONDS, settings.stream_seconds, self.closing)
        self.task_lists = TaskLists(orchestrator.task_page, self.calls.reads)

    async def task(self, principal: Principal, task_id: str) -> Task:
        """Return the caller's task. Raise Problem `not_found` if there is none, or it is another tenant's or team's."""
        return await self.calls.reads.run(self.find_task, principal, task_id)

    async def followed_task(self, principal: Principal, task_id: str) -> Task:
        """Do the same as `task` for a stream. Reads that hang, or are many, do not delay it.

        If Redis has all that a stream of an open task needs, the workspace is not asked: it may be silent.
        """
        return await self.calls.streams.run(self._find_followed_task, principal, task_id)

    def find_task(self, principal: Principal, task_id: str) -> Task:
        """Do the same as `task`, in a thread of `calls`: a route then needs one thread for all that it does."""
        whole_id, teams = principal.task_id(task_id), principal.teams
        try:
            task = self.orchestrator.task(whole_id)
            if teams is None or task.stored_summary().team in teams:
                return task
        except CorruptHistory:
            if teams is None or self.orchestrator.listed_team(whole_id) in teams:
                raise
        except UsageError as error:
            if isinstance(error, Erased) and teams is None:  # else the team of an erased task is not known
                raise
        raise principal.unknown_task(task_id)

    def _find_followed_task(self, principal: Principal, task_id: str) -> Task:
        whole_id = principal.task_id(task_id)
        with suppress(TransientError, UsageError):  # the workspace decides then
            task, teams = self.orchestrator.open_task(whole_id), principal.teams
            if task is not None and (teams is None or self.orchestrator.listed_team(whole_id) in teams):
                return task
        return self.find_task(principal, task_id)

    async def create_task(
        self, caller: Principal, new: NewTaskId, create: Callable[[], Created], *runs: str
    ) -> Created:
        """Count the task, or the runs, against the limits of the caller. Return the result of `create`, which submits.

        Raise Problem `rate_limited` if the caller has too many open tasks, or has used its tokens or cost of the day.
        A repetition for a task that exists is not refused.
        """
        record_created(new.task_id)
        task_ids = runs or (new.task_id,)
        counted = list[str]()
        try:
            for task_id in task_ids:
                await self.limits.create_task(caller, task_id)
                counted.append(task_id)
        except Problem as refused:
            if not new.repeatable or not await self._is_repetition(refused, lambda: self.exists(task_ids[0])):
                await self._cancel(caller, counted)
                raise
        try:
            return await self.calls.controls.run(create)
        except (RobocoError, Problem) as error:
            # A task whose id the client has chosen may be that of another request, and stays counted for a while.
            if not new.repeatable and _stored_nothing(error):
                await self._cancel(caller, counted)
            raise

    async def _cancel(self, caller: Principal, task_ids: list[str]) -> None:
        for task_id in task_ids:
            with suppress(RobocoError, Problem):
                await self.limits.cancel_task(caller, task_id)

    async def admit_message(self, caller: Principal, is_accepted: Callable[[], bool]) -> None:
        """Raise Problem `rate_limited` if the caller has used its tokens or cost of the day.

        Call it before a message, and before the result of a client tool: models continue with both. What is accepted
        already is not refused. `is_accepted` may block; only a refusal calls it.
        """
        try:
            await self.limits.check_usage(caller)
        except Problem as refused:
            if not await self._is_repetition(refused, is_accepted):
                raise

    async def _is_repetition(self, refused: Problem, is_accepted: Callable[[], bool]) -> bool:
        return refused.code == "rate_limited" and await self.calls.reads.run(is_accepted)

    def exists(self, task_id: str) -> bool:
        """Return True if there is a task of this id, of any caller. It blocks."""
        return self.orchestrator.stored_summary(task_id) is not None

    def close(self) -> None:
        """Close the connections and threads of this process. Tasks continue."""
        self.limits.streams.close()
        self.calls.close()
        self.orchestrator.close()


def _stored_nothing(error: RobocoError | Problem) -> bool:
    """Return True if a refused submission has stored no task. After a conflict, the task of an earlier one exists."""
    if isinstance(error, Problem):
        return error.code != "unavailable"
    return isinstance(error, UsageError | Overloaded) and not isinstance(error, StateConflict)


def gateway_of(request: Request) -> Gateway:
    """Return the gateway of the request's application."""
    found: Gateway = request.app.state.gateway
    return found


def base_url(request: Request) -> str:
    """Return the address of the gateway, as the client of the request names it."""
    return str(request.base_url).rstrip("/")


TheGateway = Annotated[Gateway, Depends(gateway_of)]

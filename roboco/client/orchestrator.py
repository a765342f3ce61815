"""Orchestrator: the client of Roboco, for any process that reaches Redis, the broker and the workspace."""

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Self, Unpack

from roboco.broker.broker_owner import Deployment, check_broker_owner
from roboco.broker.dispatcher import CeleryDispatcher
from roboco.client import task_list
from roboco.client.audit import Act, audited
from roboco.client.caller_accounts import CallerAccounts
from roboco.client.in_thread import SUBMISSIONS, in_thread
from roboco.client.operator.bulk import Bulk, create_bulk
from roboco.client.operator.bulk_control import ControlName
from roboco.client.operator.operations import LiveState, Operations
from roboco.client.operator.operator import Operator
from roboco.client.options import BulkOptions, MessageOptions, SubmitOptions, TaskFilterOptions
from roboco.client.receipt import Receipt
from roboco.client.task import Task
from roboco.client.team_lookup import resolve_sent_team, resolve_team, team_files
from roboco.client.wiring import (
    HostProcess,
    build_engine,
    client_telemetry,
    model_limits,
    producer_app,
)
from roboco.domain.conversation import Change, StoredConversation
from roboco.domain.decision.router import Router, route
from roboco.domain.history.part import Artifact
from roboco.domain.ids import check_tenant, is_task_id, qualified_id, tenant_of
from roboco.domain.inbox.submission import parse_submission
from roboco.domain.notification import NotifyTarget, check_callback
from roboco.domain.paths import summary_path
from roboco.domain.task_entry import TaskEntry
from roboco.domain.task_summary import TaskSummary
from roboco.domain.team.collaboration import Custom
from roboco.domain.team.model_offer import ModelProfileInfo, profile_infos
from roboco.domain.team.team import Team
from roboco.engine.accept import conversations, early_files
from roboco.engine.accept.wait_cause import missing_worker_messages
from roboco.engine.coordinate.submit import submit
from roboco.engine.engine import Engine
from roboco.engine.registration import check_workspace
from roboco.errors import Forbidden, TransientError, UsageError
from roboco.ports.task_index import TaskPage
from roboco.redis.client import connect
from roboco.redis.keys import Keys
from roboco.redis.scripts import Scripts
from roboco.redis.stream.follower import RedisFollower
from roboco.settings import Settings, load_settings


class Orchestrator:
    """The client: it submits tasks to the workers, and finds tasks again. Safe to share between threads.

    It connects to nothing before its first use. A client with a tenant in its settings reaches only that tenant's
    tasks, by their own ids or by TENANT:ID.
    """

    settings: Settings
    """The settings of this client."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or load_settings()
        self._producer = producer_app(self.settings)
        self._client = connect(self.settings.redis_url)
        self._telemetry = client_telemetry()
        dispatcher = CeleryDispatcher(self._producer)
        self._engine: Engine = build_engine(self.settings, dispatcher, self._client, HostProcess(self._telemetry))
        self._deployment_checked = False
        keys, archive = Keys(self.settings.prefix), self._engine.workspace.stored_events.read
        live = LiveState(self._engine, self._producer, self._client, keys, model_limits(self.settings))
        self._operations = Operations(self._engine, live.queues, live.rates, live.tasks)
        steps = self._engine.workspace.histories.read
        self._follower = RedisFollower(self._client, self.settings.redis_url, keys, archive, steps)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. Tasks continue."""
        if self._telemetry is not None:
            self._telemetry.close()
        self._producer.close()
        self._client.close()

    def run(
        self,
        team: Team | str | Path,
        prompt: str,
        **options: Unpack[SubmitOptions],
    ) -> Task:
        """Submit a task, and return it without waiting for its end. Once this returns, workers finish the task.

        `team` is a Team, the path of a team file, or the name of one in ROBOCO_TEAMS_DIR. `SubmitOptions` lists the
        options. The same `task_id` with the same content again is the same task.
        Raises UsageError if the submission is wrong, and Overloaded, a TransientError, if too many turns wait already
        (ROBOCO_MAX_QUEUED): neither stores anything. Raises TransientError if a server does not answer; submit again
        with the same `task_id` then.
        """
        return self._submit(team, prompt, options)

    def run_in_canvas(
        self, team: Team | str | Path, prompt: str, options: SubmitOptions, continuation: NotifyTarget
    ) -> Task:
        """Submit a task as `run` does; when it has ended, Roboco's own Celery task continues the shop's canvas.

        The caller must build `continuation` itself, and never from data that a producer or a tenant wrote.
        Raises UsageError for a conversation, which does not end by itself.
        """
        if options.get("conversation"):
            raise UsageError("conversation: a team in a canvas must end for the canvas to continue: leave it out")
        return self._submit(team, prompt, options, continuation)

    def _submit(
        self, team: Team | str | Path, prompt: str, options: SubmitOptions, continuation: NotifyTarget | None = None
    ) -> Task:
        chosen = resolve_team(self.settings, team)
        fields = {name: value for name, value in options.items() if value is not None and name != "files"}
        task_id = fields["task_id"] = self._submitted_id(fields.pop("tenant", None), fields.get("task_id"))
        if isinstance(eta := fields.get("eta"), datetime):
            fields["eta"] = eta.isoformat()
        stored = [self.upload(task_id, file, by=options.get("by")).name for file in options.get("files") or ()]
        fields |= {"artifacts": [*options.get("artifacts", ()), *stored]} if stored else {}
        submission = parse_submission(fields | {"team": chosen.name, "prompt": prompt})
        for target in submission.notify:
            check_callback(target, self.settings.allowlist.callbacks)
        if continuation is not None:
            submission = submission.model_copy(update={"notify": [continuation, *submission.notify]})
        self._check_deployment()
        task = self._task(submission.task_id)
        task.created = submit(self._engine, submission, chosen)
        return task

    def models(self, team: Team | str | Path) -> list[ModelProfileInfo]:
        """Return the model profiles of a team; `model` may name one when a task is submitted or forked."""
        return profile_infos(self.team(team))

    def team(self, team: Team | str | Path) -> Team:
        """Return the team itself, that of the file at a path, or that of this name in ROBOCO_TEAMS_DIR.

        Raises UsageError if there is none, and InvalidTeam if its file has mistakes.
        """
        return resolve_team(self.settings, team)

    def team_names(self) -> list[str]:
        """Return the names of the teams in ROBOCO_TEAMS_DIR, sorted; none if it is not set. No file is read."""
        folder = self.settings.teams_dir
        return [] if folder is None else sorted(team_files(folder))

    def sent_team(self, team: str | dict[str, Any]) -> Team:
        """Return the team that a remote caller names or sends. A string is a name, never a path.

        Raises UsageError if ROBOCO_TEAMS_DIR has no team of this name, and InvalidTeam if the team has mistakes.
        """
        return resolve_sent_team(self.settings, team)

    def router(self, team: Team) -> Router:
        """Return the function that routes the team's turns, for a replay of a task.

        A custom router is imported, as on a worker, from a module that ROBOCO_TOOL_MODULES names. Raises UsageError if
        it cannot be imported.
        """
        model = team.collaboration_model
        return self._engine.services.toolbox.router(model.router) if isinstance(model, Custom) else route

    def upload(
        self, task_id: str, file: Path | BinaryIO, name: str | None = None, *, by: str | None = None
    ) -> Artifact:
        """Store a file of any size for a task that is submitted or forked later, and return it.

        The first message of the task refers to it: `run(..., artifacts=[artifact.name])`. Only a task of the same
        caller `by` gets the file. If there is none a day after the last upload, it is removed.
        Raises UsageError also if the id has files of another caller.
        """
        task = self._task(self._qualified_id(task_id))
        if self._engine.workspace.summaries.get(task.task_id) is not None:
            return task.upload(file, name)
        early_files.reserve(self._engine, task.task_id, by)
        try:
            stored = task.upload(file, name)
        except Exception:
            early_files.release(self._engine.workspace, task.task_id)
            raise
        early_files.confirm(self._engine, task.task_id, by, stored)
        return stored

    def early_files(self, task_id: str, by: str | None, after: str = "", limit: int = 100) -> list[Artifact] | None:
        """Return a page of the files that the caller has uploaded for a task that is not submitted yet.

        None if there is such a task, or if the files are another caller's.
        """
        task = self._task(self._qualified_id(task_id))
        owner = early_files.owner_of(self._engine.workspace, task.task_id)
        return None if owner is None or owner.by != by else task.artifact_page(after, limit)

    def task(self, task_id: str) -> Task:
        """Return the task with this id. Raises UsageError if there is none, TransientError if Redis does not answer."""
        task = self._task(self._qualified_id(task_id))
        task.summary()
        return task

    def interrupt(
        self, task_id: str, message: str | None = None, timeout: float = 0.0, **options: Unpack[MessageOptions]
    ) -> Receipt:
        """Interrupt the task with this id, as `Task.interrupt` does. Raises UsageError if there is none."""
        return self.task(task_id).interrupt(message, timeout=timeout, **options)

    def open_task(self, task_id: str) -> Task | None:
        """Return the task if Redis has it, open, else None: it may have ended, or be unknown. No file is read.

        Raises UsageError for a task of another tenant, and TransientError if Redis does not answer.
        """
        task = self._task(self._qualified_id(task_id))
        live = self._engine.tasks.task_store.load(task.task_id, 1)
        return None if live is None or live.position.status.ended else task

    def listed_team(self, task_id: str) -> str | None:
        """Return the name of the task's team by the task index, or None. It raises the errors of `open_task`."""
        return self._engine.tasks.task_index.team(self._qualified_id(task_id))

    def stored_task(self, task_id: str) -> Task:
        """Return the task with this id, also while Redis does not answer. Raises UsageError if there is none."""
        task = self._task(self._qualified_id(task_id))
        if self._engine.workspace.files.size(summary_path(task.task_id)) is None:
            raise self._engine.workspace.summaries.missing(task.task_id)
        return task

    def tasks(self, **filters: Unpack[TaskFilterOptions]) -> Iterator[TaskEntry]:
        """Yield the tasks that meet all conditions, each once, the latest change of a status first.

        They are the open tasks, and the ended ones that the task index still holds (ROBOCO_INDEX_RETENTION). Tasks that
        change meanwhile follow at the end. Cost: one read of Redis for 500 tasks; the method keeps the ids.
        Raises UsageError if a condition is wrong, and TransientError if Redis does not answer.
        """
        return task_list.iterate(self._engine.tasks.task_index, task_list.task_filter(self.settings.tenant, filters))

    def task_page(self, *, limit: int = 50, cursor: str = "", **filters: Unpack[TaskFilterOptions]) -> TaskPage:
        """Return a page of the tasks that meet all conditions, the latest change of a status first.

        Give the cursor of a page, with the same conditions, to get the next one. The last page has the cursor "".
        A page may be short, and even empty, and have a cursor: a condition on team or text is checked on at most 2,000
        tasks for each page. A task whose status changes meanwhile moves to the front.
        Raises UsageError if a condition, the limit or the cursor is wrong, and TransientError if Redis does not answer.
        """
        wanted = task_list.task_filter(self.settings.tenant, filters)
        return self._engine.tasks.task_index.page(wanted, cursor, task_list.check_limit(limit))

    def with_current_reasons(self, entries: Sequence[TaskEntry]) -> list[TaskEntry]:
        """Return the entries of a page with the present reasons of queued and running tasks, such as a switch.

        Cost: one read of Redis for each of these. Raises TransientError if Redis does not answer.
        """
        store, now = self._engine.tasks.task_store, self._engine.clock.now()
        return [task_list.with_current_reason(store, entry, now) for entry in entries]

    def bulk(self, control: ControlName, **options: Unpack[BulkOptions]) -> Bulk:
        """Return a bulk control of all tasks that meet the conditions. It begins with its count or first page.

        `stop` and `limits` reach open tasks, `interrupt` queued and running ones, `pause` open ones that are not
        paused, `step` and `resume` paused ones; `status` may name others that are open. `approve`, `deny`, `answer` and
        `resolve` decide the calls of `tool`, or all calls, that wait at the beginning. `send` reaches tasks that wait
        for their user, and `fork` tasks of all statuses. Tasks with the client's tenant alone, if it has one.
        Raises UsageError if an option is wrong, or without a condition unless `all_tasks` is set.
        """
        return create_bulk(self._engine, self.task, control, self.settings, options)

    def task_ids(self) -> Iterator[str]:
        """Yield the ids of all tasks of the workspace, or of the tenant, also of some that were never accepted."""
        tenant = self.settings.tenant
        names = self._engine.workspace.files.names("")
        return (name for name in names if is_task_id(name) and tenant in (None, tenant_of(name)))

    def stored_summary(self, task_id: str) -> TaskSummary | None:
        """Return a task at a glance as the workspace has it, or None if there is no such task. Redis is not asked.

        Raises CorruptHistory if neither the summary nor the history of the task can be read.
        """
        return self._engine.workspace.summaries.get(self._qualified_id(task_id))

    def missing_workers(self) -> list[str]:
        """Return a sentence for each pool without a live worker. Raises TransientError if Redis does not answer."""
        return missing_worker_messages(self._engine)

    @property
    def operator(self) -> Operator:
        """The acts of an operator: dead letters, switches, keys, drains, the removal of tasks, and reports."""
        return Operator(self._engine, self.settings, self._producer, self._operations)

    @property
    def caller_limits(self) -> CallerAccounts:
        """The counts of callers of the HTTP gateway."""
        return CallerAccounts(self._engine, Scripts(self._client), Keys(self.settings.prefix))

    def conversation(self, task_id: str) -> StoredConversation | None:
        """Return the record of a conversation of OpenAI's API by the whole id of its task, or None."""
        return conversations.find(self._engine.workspace, task_id)

    def create_conversation(self, task_id: str, new: StoredConversation) -> StoredConversation:
        """Store a new record. Return it, or that of the same request. Raises StateConflict if there is another one."""
        return conversations.create(self._engine, task_id, new)

    def change_conversation(
        self, task_id: str, by: str, change: Change, new: StoredConversation, of_items: bool = False
    ) -> StoredConversation:
        """Change the record, or the `new` one if there is none, and return it. Raises NotFound if it was deleted.

        Raises StateConflict for a change of items that a first message has, or may have.
        """
        with audited(Act("change_conversation", by, task_id), self.settings.audit_log):
            return conversations.change(self._engine, task_id, change, new, of_items)

    arun = in_thread(run, SUBMISSIONS)
    atask = in_thread(task)
    atask_page = in_thread(task_page)
    aupload = in_thread(upload, SUBMISSIONS)

    def _qualified_id(self, task_id: object) -> str:
        """Return the whole id of a task. Raises UsageError for a task of another tenant."""
        return qualified_id(self.settings.tenant, task_id)

    def _submitted_id(self, tenant: object, task_id: object) -> str:
        """Return the id of a task to submit for this tenant, or for the client's own."""
        own = self.settings.tenant
        if tenant is not None and own not in (None, check_tenant(tenant)):
            raise Forbidden(
                f"tenant {tenant!r}: this client submits for tenant {own!r} alone (ROBOCO_TENANT); "
                "leave tenant out, or use a client without ROBOCO_TENANT"
            )
        owner = own if tenant is None else check_tenant(tenant)
        return qualified_id(owner, f"task_{uuid.uuid4().hex}" if task_id is None else task_id)

    def _check_deployment(self) -> None:
        """Compare the workspace and the owner of the broker with the coordinators', once.

        If one of them cannot be read, the comparison is skipped: the submission itself raises the error.
        """
        if not self._deployment_checked:
            with suppress(TransientError):
                check_workspace(self._engine, self.settings.workspace_address)
                check_broker_owner(self._producer, self._deployment)
                self._deployment_checked = True

    def _deployment(self) -> Deployment:
        own = self._engine.worker_status.own_workspace(self.settings.workspace_address)
        return Deployment(self.settings.prefix, own.id)

    def _task(self, task_id: str) -> Task:
        return Task(task_id, self._engine, self._follower, self.settings)

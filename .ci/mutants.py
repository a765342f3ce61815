"""mutants.py [--record] [WORD ...]: apply deliberate bugs, one after the other, and run the cheapest tests of each.

Each bug is a text of the product and its replacement. A copy of the tree in a temporary folder gets it, and the tests
must fail. The names of the bugs that were caught are in .ci/mutants.json; a bug that was caught before and no longer is
ends the program with 1. Words choose the bugs whose file or name contains one of them.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RECORD = ROOT / ".ci" / "mutants.json"
TIMEOUT = 180
"""Seconds after which tests count as failed: the bug may make them hang."""
TREE = ("roboco", "workers", "tests", "deploy", ".ci", "pyproject.toml", "README.md", "compose.yaml")


@dataclass(frozen=True)
class Bug:
    """A text in a file below `roboco`, its replacement, and the tests that should fail."""

    name: str
    path: str
    old: str
    new: str
    tests: str


EVENTS = "tests/unit/engine/record/test_event_archive.py"
LUA, DECISION, INTAKE = "redis/lua/", "domain/decision/", "engine/accept/"
BUGS = (
    Bug(
        "a commit of another epoch",
        f"{LUA}commit.lua",
        "if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end",
        "if now[2] ~= ARGV[2] then return 0 end",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a repeated commit counts twice",
        f"{LUA}commit.lua",
        "if tonumber(now[2]) > tonumber(ARGV[2]) then return 1 end",
        "if tonumber(now[2]) > tonumber(ARGV[2]) then return 0 end",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "the tail grows without a bound",
        f"{LUA}commit.lua",
        "(steps - trimmed > tonumber(ARGV[5]) or bytes > tonumber(ARGV[6]))",
        "(bytes > tonumber(ARGV[6]))",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a turn emits after its lease was lost",
        f"{LUA}emit.lua",
        "if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end",
        "if now[1] ~= ARGV[1] then return 0 end",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a repeated chunk is published twice",
        f"{LUA}emit.lua",
        "if tonumber(now[3]) < tonumber(ARGV[3]) then",
        "if true then",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "two workers claim one turn",
        f"{LUA}claim.lua",
        "if now[5] ~= '' and now[5] ~= ARGV[4] then return false end",
        "",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a cancelled turn is claimed",
        f"{LUA}claim.lua",
        "if now[5] == '' and now[6] == ARGV[1] then return false end",
        "",
        "tests/contract/redis/test_leases.py",
    ),
    Bug(
        "an earlier attempt is claimed",
        f"{LUA}claim.lua",
        " or now[3] ~= ARGV[3] or",
        " or",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a second outcome replaces the first",
        f"{LUA}record_outcome.lua",
        "if call[1] then return",
        "if false then return",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a call is claimed twice",
        f"{LUA}claim_call.lua",
        "if call[3] and call[3] ~= '' and call[3] ~= ARGV[4] then return 0 end",
        "",
        "tests/contract/redis/test_leases.py",
    ),
    Bug(
        "an item ends the work of another epoch",
        f"{LUA}inbox_add.lua",
        "if ARGV[1] == '0' or (ARGV[4] ~= '' and ARGV[4] ~= now[1]) then return 1 end",
        "if ARGV[1] == '0' then return 1 end",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a renewal by another owner",
        f"{LUA}renew.lua",
        "if now[1] ~= ARGV[1] or now[2] ~= ARGV[2] then return 0 end",
        "if now[1] ~= ARGV[1] then return 0 end",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a turn restarts under a lease that is alive",
        f"{LUA}restart.lua",
        "if redis.call('EXISTS', KEYS[3]) == 1 and now[3] ~= ARGV[3] then return 0 end\n",
        "",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a decision that has not seen an item is recorded",
        f"{LUA}record_decision.lua",
        "    if not seen[id] then return 0 end\n",
        "",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a running task expires",
        f"{LUA}expire.lua",
        "if now[1] and (now[1] ~= 'end' or now[2] ~= ARGV[2]) then",
        "if now[1] and now[2] ~= ARGV[2] then",
        "tests/contract/redis/test_task_store_machine.py",
    ),
    Bug(
        "a released call loses its outcome",
        f"{LUA}release_call.lua",
        "if call[1] or call[2] ~= ARGV[3] or call[3] ~= ARGV[4] then return 0 end",
        "if call[2] ~= ARGV[3] or call[3] ~= ARGV[4] then return 0 end",
        "tests/contract/redis/test_leases.py",
    ),
    Bug(
        "an attempt starts beside a running one",
        f"{LUA}attempt_start.lua",
        "if holder and holder ~= ARGV[1] then return -1 end",
        "",
        "tests/contract/redis/test_bookkeeping_machine.py",
    ),
    Bug(
        "an earlier count of usage replaces a later one",
        f"{LUA}day_usage_count.lua",
        "if tonumber(steps) >= tonumber(ARGV[3]) then",
        "if false then",
        "tests/contract/redis/rates tests/unit/engine/run/test_day_budgets.py",
    ),
    Bug(
        "a request beyond the rate of a key",
        f"{LUA}caller_admit.lua",
        "if refuse and paid[i] > now + MINUTE + 0.5 then",
        "if false then",
        "tests/contract/redis/rates/test_caller_limits.py",
    ),
    Bug(
        "a message is written to no log",
        f"{LUA}_publish.lua",
        "  redis.call('XADD', log, number .. '-0', 'm', message)\n",
        "",
        "tests/contract/redis/test_logs.py",
    ),
    Bug(
        "a task that has ended goes on",
        f"{DECISION}decide.py",
        "    if ended is not None and not waits:\n        return ended\n",
        "",
        "tests/unit/domain/decision",
    ),
    Bug(
        "a stop waits for the next turn",
        f"{DECISION}decide.py",
        "    if situation.stop is not None:\n",
        "    if situation.stop is not None and not history.last.by_agent:\n",
        "tests/unit/domain/decision",
    ),
    Bug(
        "a limit that pauses ends the task",
        f"{DECISION}decide.py",
        'if last.error.code == LIMIT and limits.at_limit != "end":',
        "if False:",
        "tests/unit/engine/test_budgets.py",
    ),
    Bug(
        "a round too many",
        f"{DECISION}router.py",
        "if done < model.rounds:",
        "if done <= model.rounds:",
        "tests/unit/domain/decision",
    ),
    Bug(
        "an edge is used once too often",
        f"{DECISION}router.py",
        "history.state.rules.get(rule, 0) >= edge.max_times",
        "history.state.rules.get(rule, 0) > edge.max_times",
        "tests/unit/domain/decision",
    ),
    Bug(
        "the agent that the user named does not answer",
        f"{DECISION}router.py",
        "if name is None or not team.has_agent(name):",
        "if True:",
        "tests/unit/domain/decision",
    ),
    Bug(
        "an item with other content under the same id",
        f"{INTAKE}accept_item.py",
        "if stored_before is None or _content_of(stored_before) == _content_of(item):",
        "if True:",
        "tests/unit/engine/accept tests/unit/engine/test_late_and_repeated_items.py",
    ),
    Bug(
        "an inbox without a bound",
        f"{INTAKE}accept_item.py",
        "if (waiting := tasks.task_store.count_items(task_id)) >= max_items:",
        "if (waiting := tasks.task_store.count_items(task_id)) >= 10**9:",
        "tests/unit/engine/test_closing.py",
    ),
    Bug(
        "an ended task takes items",
        f"{INTAKE}accept_item.py",
        "        return marker == OPENED\n",
        "        return True\n",
        "tests/unit/engine/accept tests/unit/engine/test_closing.py",
    ),
    Bug(
        "a full Redis takes tasks",
        f"{INTAKE}checks.py",
        ">= MAX_MEMORY_SHARE:",
        ">= 2.0:",
        "tests/unit/engine/test_later.py",
    ),
    Bug(
        "more tasks than may wait",
        f"{INTAKE}checks.py",
        "if waiting < max_queued:",
        "if waiting <= max_queued:",
        "tests/unit/engine/test_later.py",
    ),
    Bug(
        "a step that another worker wrote is committed",
        "engine/run/turn.py",
        "if stored.digest != step.digest:",
        "if False:",
        "tests/unit/engine/run/test_turn.py",
    ),
    Bug(
        "no pass follows a commit that cannot continue",
        "engine/run/turn.py",
        "if not continued or is_log_full(engine, task):",
        "if is_log_full(engine, task):",
        "tests/unit/engine/run tests/unit/engine/test_journeys.py",
    ),
    Bug(
        "the work does not hear that its lease is lost",
        "engine/heartbeat.py",
        "                work.on_lost()\n",
        "                pass\n",
        "tests/unit/engine/test_heartbeat.py",
    ),
    Bug(
        "a cancellation is reported with each renewal",
        "engine/heartbeat.py",
        "answer is LeaseStatus.CANCEL_REQUESTED and not work.cancelled",
        "answer is LeaseStatus.CANCEL_REQUESTED",
        "tests/unit/engine/test_heartbeat.py",
    ),
    Bug(
        "a late notification is delivered",
        "engine/operate/notification_delivery.py",
        "return notice is not None and notice.round == 0",
        "return False",
        "tests/faults/test_explore.py -k fixed_case",
    ),
    Bug(
        "a later notification does not wait for an earlier one",
        "engine/operate/notification_delivery.py",
        "                break  # the later ones wait for it\n",
        "                continue\n",
        "tests/unit/engine/test_notifications.py",
    ),
    Bug(
        "a message without a signature",
        "broker/message_signing.py",
        "if not any(hmac.compare_digest(made.encode(), one.encode()) for one in right):",
        "if False:",
        "tests/unit/broker/test_message_signing.py",
    ),
    Bug(
        "a signature without an end",
        "broker/message_signing.py",
        "if not -MAX_CLOCK_SKEW <= age <= SIGNATURE_LIFETIME:",
        "if age < -MAX_CLOCK_SKEW:",
        "tests/unit/broker/test_message_signing.py",
    ),
    Bug(
        "a refusal without a reason switches all checks off",
        "broker/message_reader.py",
        'isinstance(refused, str) and refused != "" and',
        "isinstance(refused, str) and",
        "tests/unit/broker/test_hostile_queue.py",
    ),
    Bug(
        "a compressed message is read",
        "broker/message_reader.py",
        'if content_type != "application/json":',
        "if False:",
        "tests/unit/broker/test_envelope.py tests/contract/redis/test_transport.py "
        "tests/unit/broker/test_hostile_queue.py",
    ),
    Bug(
        "a key without the scope",
        "gateway/principal.py",
        "        if scope not in self.scopes:\n",
        "        if False:\n",
        "tests/contract/gateway/test_rest_controls.py tests/contract/gateway/test_rest_operations.py",
    ),
    Bug(
        "a task of another tenant",
        "gateway/principal.py",
        "if not is_task_id(named) or self.tenant not in (None, tenant_of(named)):",
        "if not is_task_id(named):",
        "tests/contract/gateway/test_rest_tasks.py tests/contract/gateway/test_roboto_access.py",
    ),
    Bug(
        "tokens of the day without an end",
        "gateway/limits.py",
        "            if reached is not None:\n",
        "            if False:\n",
        "tests/contract/gateway/test_limits.py",
    ),
    Bug(
        "a page of another site",
        "gateway/origin.py",
        'if site or (origin and not is_same_host(origin, _value(scope, b"host"))):',
        "if False:",
        "tests/contract/gateway/test_hostile_requests.py tests/unit/gateway",
    ),
    Bug(
        "a path that leaves its folder",
        "workspace/path.py",
        'if path.startswith("/") or ".." in path.split("/"):',
        'if path.startswith("/"):',
        "tests/contract/workspace/test_files.py",
    ),
    Bug(
        "a write that replaces another one",
        "workspace/folder.py",
        "if stored is None or stored.version != version:",
        "if stored is None:",
        "tests/contract/workspace/test_files.py",
    ),
    Bug(
        "a step that exists is written again",
        "workspace/folder_history.py",
        "            if step.seq < count:\n",
        "            if step.seq < count - 1:\n",
        "tests/contract/workspace/test_histories.py",
    ),
    Bug(
        "a function of any module",
        "tools/function_loader.py",
        "if module_name not in (*self._modules, SHIPPED_MODULE):",
        "if False:",
        "tests/unit/tools",
    ),
    Bug(
        "an address with a path that climbs",
        "domain/url.py",
        'if "." in steps or ".." in steps:',
        "if False:",
        "tests/unit/domain/test_url.py",
    ),
    Bug(
        "an artifact of any name",
        "domain/history/part.py",
        "if not ARTIFACT_NAME.fullmatch(name):",
        "if not ARTIFACT_NAME.match(name):",
        "tests/unit/workspace/artifacts tests/unit/domain/recorded tests/contract/gateway/test_rest_files.py",
    ),
    Bug(
        "a whole message after its pieces is read again",
        "model/chat_reader.py",
        "if isinstance(message, dict) and not self._has_deltas:",
        "if isinstance(message, dict):",
        "tests/unit/model",
    ),
    Bug(
        "a webhook that is gone is tried again",
        "notifications/webhook.py",
        "if answer.status == STATUS_GONE:",
        "if False:",
        "tests/integration/producers/test_webhooks.py",
    ),
    Bug(
        "a tenant without an end of its budget",
        "engine/day_budgets.py",
        "if (reached := budget.reached(engine.services.rate_limiter.spent(tenant, day_of(now)))) is None:",
        "if (reached := budget.reached(engine.services.rate_limiter.spent(tenant, day_of(now)))) is None or True:",
        "tests/unit/engine/run/test_day_budgets.py",
    ),
    Bug(
        "an unknown outcome is not resolved",
        "engine/coordinate/close_call.py",
        "if not needs_resolution(outcome):",
        "if True:",
        "tests/unit/engine/coordinate/test_shop_task.py",
    ),
    Bug(
        "a task is removed before its notifications are sent",
        "engine/operate/retention.py",
        "engine.workspace.files.size(notify_marker_path(task.task_id)) is not None:",
        "False:",
        "tests/unit/engine/removal tests/unit/engine/coordinate",
    ),
    Bug(
        "events are trimmed that no file has",
        "engine/record/event_archive.py",
        "return max(task.logs.first_event, min(first, archived + 1))",
        "return max(task.logs.first_event, first + 1)",
        EVENTS,
    ),
    Bug(
        "a waiting task keeps its log",
        "engine/record/event_archive.py",
        "_Kept(1, 0, task.logs.chunks + 1)",
        "_Kept(10**6, 10**9)",
        EVENTS,
    ),
    Bug(
        "a merge lacks the events between log and segments",
        "engine/record/event_archive.py",
        "            log = _log_lines(engine.tasks, task_id)\n",
        "",
        EVENTS,
    ),
    Bug(
        "a rebuilt task lacks its inbox",
        "engine/record/recover.py",
        "    restore_inbox(engine, task_id)  # first: a worker that finds the task in Redis must find its items\n",
        "",
        "tests/unit/engine/test_closing.py tests/unit/engine/record",
    ),
    Bug(
        "a rebuilt task has the epoch of a lost one",
        "engine/record/recover.py",
        "archived_epoch = 0 if before is None else before.epoch",
        "archived_epoch = 0",
        "tests/unit/engine/record/test_recover.py",
    ),
    Bug(
        "a turn is restarted although its step is stored",
        "engine/record/recover.py",
        "for step in engine.workspace.histories.read(task_id, task.position.seq):",
        "for step in iter(()):",
        "tests/unit/engine/test_attempt_end.py tests/unit/engine/run",
    ),
    Bug(
        "the lost result of a sub-task is not sent again",
        "engine/coordinate/delegate.py",
        "    if summary is not None and summary.status.ended:\n",
        "    if False:\n",
        "tests/unit/engine/coordinate/test_delegate.py",
    ),
    Bug(
        "a restarted Redis counts as an emptied one",
        "engine/operate/fill.py",
        "FillKind.RESTARTED if schedule.was_restarted() else FillKind.EMPTIED",
        "FillKind.EMPTIED",
        "tests/unit/engine/operate/test_fill.py",
    ),
    Bug(
        "a step of a paused task is two",
        f"{INTAKE}control.py",
        "until = 1 if task is None else task.position.seq + 1",
        "until = 1 if task is None else task.position.seq + 2",
        "tests/unit/engine/test_pause.py",
    ),
    Bug(
        "a message that a guard refuses fails its task",
        "domain/decision/answer_checks.py",
        'refused.get("failed") and guards',
        'refused.get("failed") or guards',
        "tests/unit/engine/coordinate/test_input_guards.py",
    ),
    Bug(
        "a tool that guards is called as a team",
        "domain/decision/answer_checks.py",
        "is_tool = team.tool(name) is not None",
        "is_tool = team.tool(name) is None",
        "tests/unit/engine/coordinate/test_input_guards.py",
    ),
    Bug(
        "words that are no answer pass the guards",
        "domain/decision/answer_checks.py",
        'if others or not text or metadata.get("interrupted"):',
        'if others and not text or metadata.get("interrupted"):',
        "tests/unit/engine/coordinate/test_output_guards.py",
    ),
    Bug(
        "a turn emits after it was cancelled",
        "engine/run/token_stream.py",
        "            self._cancellation.request()\n        with self._changed:",
        "            pass\n        with self._changed:",
        "tests/unit/engine/run/test_token_stream.py",
    ),
    Bug(
        "sub-tasks go on after a stop of their parent",
        "engine/coordinate/delegate.py",
        "    accept_item(engine, sub_task_id(task_id, call.id), item, enforce_capacity=False)\n",
        "    return\n",
        "tests/unit/engine/coordinate/test_map.py",
    ),
    Bug(
        "an answer with a forged secret",
        "engine/coordinate/shop_task.py",
        "if sent is None or not hmac.compare_digest(sent.token.encode(), given.secret.encode()):",
        "if sent is None:",
        "tests/unit/engine/coordinate/test_shop_task.py",
    ),
    Bug(
        "a sub-task is retried",
        "engine/accept/fork.py",
        "if (parent := parent_of(task_id, steps[0])) is not None:",
        "if (parent := parent_of(task_id, steps[0])) is not None and False:",
        "tests/unit/engine/accept/test_retry_task.py",
    ),
    Bug(
        "a call that may not be sent stays open",
        "engine/coordinate/shop_task.py",
        "            close_call(engine, self._assignment, self._call, answered)\n            return engine",
        "            return engine",
        "tests/unit/engine/coordinate/test_shop_task.py",
    ),
    Bug(
        "a receiver hears statuses that it did not ask for",
        "engine/notifications.py",
        "if task.position.status in one.on]",
        "if task.position.status not in one.on]",
        "tests/unit/engine/test_notifications.py",
    ),
    Bug(
        "an undeliverable notification is no dead letter",
        "engine/operate/notification_delivery.py",
        "            _give_up(engine, name, _after_attempt(notice, target, now, reason), target)\n",
        "            pass\n",
        "tests/unit/engine/test_notifications.py",
    ),
    Bug(
        "a settled notification stays due",
        "engine/notifications.py",
        "    engine.workspace.files.delete(notification_path(notice.task_id, name))\n",
        "",
        "tests/unit/engine/test_notifications.py",
    ),
    Bug(
        "a callback that the operator does not allow",
        "domain/notification.py",
        'if "@" in task or wanted not in allowed:',
        'if "@" in task:',
        "tests/unit/domain/test_notification_callback.py",
    ),
    Bug(
        "a task stays paused after an outage",
        "engine/coordinate/outage.py",
        "        accept_item(engine, task_id, item, enforce_capacity=False)\n    except UsageError as error:",
        "        pass\n    except UsageError as error:",
        "tests/unit/engine/coordinate/test_outage.py",
    ),
    Bug(
        "a fork with another message under the same id",
        "engine/accept/fork.py",
        "if before != lineage.model_copy(update=first) or",
        "if False or",
        "tests/unit/engine/accept/test_fork.py",
    ),
    Bug(
        "an erased task is unknown",
        "engine/workspace_records.py",
        "return erased_error(self._files, task_id) or NotFound",
        "return NotFound",
        "tests/unit/engine/removal/test_erasure.py",
    ),
    Bug(
        "the work does not hear of a request to cancel",
        "engine/heartbeat.py",
        "                work.on_cancel()\n",
        "                pass\n",
        "tests/unit/engine/test_heartbeat.py",
    ),
    Bug(
        "a renewal without a thread is never tried again",
        "engine/heartbeat.py",
        '            self._end_renewal(server)\n            _log.exception("%d leases could',
        '            _log.exception("%d leases could',
        "tests/unit/engine/test_heartbeat.py",
    ),
    Bug(
        "open tasks of long ago leave the index",
        "engine/operate/rebuild_index.py",
        "entry.status.ended and entry.updated_at < oldest",
        "entry.status.ended or entry.updated_at < oldest",
        "tests/unit/engine/operate/test_rebuild_index.py",
    ),
    Bug(
        "padding evades an approval",
        "domain/team/approval.py",
        "return len(text) <= max_searched_chars(pattern) and not matches(pattern, text)",
        "return not matches(pattern, text)",
        "tests/unit/domain/team/test_approval.py",
    ),
    Bug(
        "goals stay open although the task gave up",
        "domain/session/goal.py",
        "if declared or gave_up:",
        "if declared:",
        "tests/unit/domain/session/test_session.py",
    ),
)


def main() -> int:
    """Run the chosen bugs. Return 1 if one that was caught before is missed."""
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    before = set(json.loads(RECORD.read_text())) if RECORD.exists() else set[str]()
    caught = set[str]()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        for name in TREE:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, tree / name)
        chosen = [bug for bug in BUGS if not words or any(word in bug.name or word in bug.path for word in words)]
        for bug in chosen:
            found = _is_caught(bug, tree)
            print(f"{'caught' if found else 'MISSED'}  {bug.name} ({bug.path})", flush=True)
            if found:
                caught.add(bug.name)
    lost = sorted((before & {bug.name for bug in chosen}) - caught)
    print(f"{len(caught)} of {len(chosen)} caught" + (f"; caught before: {', '.join(lost)}" if lost else ""))
    if "--record" in sys.argv:
        RECORD.write_text(json.dumps(sorted((before - {bug.name for bug in chosen}) | caught), indent=2) + "\n")
        return 0
    return 1 if lost else 0


def _is_caught(bug: Bug, tree: Path) -> bool:
    """Return True if the tests fail with the bug."""
    path = tree / "roboco" / bug.path
    text = path.read_text()
    if text.count(bug.old) != 1:
        raise SystemExit(f"{bug.path} has {text.count(bug.old)} times the text of {bug.name!r}, and not once")
    path.write_text(text.replace(bug.old, bug.new))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *bug.tests.split()]
    with tempfile.TemporaryFile("w+") as output:
        tests = subprocess.Popen(command, cwd=tree, stdout=output, stderr=output, start_new_session=True)
        try:
            code = tests.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGTERM)  # pytest ends its servers
            tests.wait()
            return True
        finally:
            path.write_text(text)
        if code not in (0, 1):
            output.seek(0)
            raise SystemExit(f"the tests of {bug.name!r} cannot run:\n{output.read()[-2000:]}")
    return code == 1


if __name__ == "__main__":
    sys.exit(main())

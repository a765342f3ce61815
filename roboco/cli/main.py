"""The command `roboco`: its subcommands, its error messages and its exit codes.

A command is imported when it is called: `roboco --help` imports none of them.
"""

import difflib
import importlib
import os
import sys
from io import TextIOWrapper
from typing import Any, Final, NoReturn

import click
from click.shell_completion import CompletionItem

from roboco.cli.terminal.exit import (
    ERROR_FORMAT,
    EXIT_CODES,
    SIGNALLED,
    SUCCESS,
    report,
    report_abort,
    report_usage,
    wants_json,
)
from roboco.cli.terminal.signals import install_signal_handlers
from roboco.errors import RobocoError

_COMMANDS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Run": {
        "demo": ("commands.demo:demo", "Run a shipped team on TOPIC."),
        "init": ("commands.init:init", "Create a project: a team, a tool, a service, a test and settings."),
        "run": ("commands.run:run", "Run a team here and show it live."),
        "dev": ("commands.dev:dev", "Run a whole stack: Redis, S3, workers, Flower and HTTP."),
        "serve": ("gateway.serve:serve", "Serve HTTP: start, follow, steer and stop tasks."),
        "submit": ("commands.submit:submit", "Submit a task to running workers and print its id."),
        "watch": ("commands.watch:watch", "Show a task live until it has ended."),
    },
    "Control": {
        "send": ("commands.submit:send", "Send a message to a task."),
        "interrupt": ("commands.control:interrupt", "Interrupt a task, with or without a message."),
        "stop": ("commands.control:stop", "Stop a task: it ends as cancelled."),
        "pause": ("commands.control:pause", "Pause a task before its next step."),
        "step": ("commands.control:step", "Run one step of a task, show it, and pause the task."),
        "resume": ("commands.control:resume", "Resume a paused task."),
        "approve": ("commands.answers:approve", "Approve a tool call."),
        "deny": ("commands.answers:deny", "Deny a tool call."),
        "answer": ("commands.answers:answer", "Submit the result of a client tool call."),
        "resolve": ("commands.answers:resolve", "Resolve a tool call with an unknown outcome."),
        "limits": ("commands.limits:limits", "Set other limits for a task."),
        "retry": ("commands.limits:retry", "Continue a failed task in a new one, from its last good step."),
        "fork": ("commands.fork:fork", "Start a new task from the first steps of a task."),
    },
    "Inspect": {
        "tasks": ("commands.tasks:tasks", "List tasks by status, tenant, team, time and title."),
        "show": ("commands.show:show", "Show a task: its steps, files and cost."),
        "why": ("commands.why:why", "Explain who acted in a task and why."),
        "context": ("commands.context:context", "Show the steps that the model received for a step."),
        "session": ("commands.session:session", "Print a task as a conversation, as JSON."),
        "delta": ("commands.session:delta", "Print the changes of a task's conversation as JSON."),
        "what-if": ("roboco.lab.what_if:what_if", "Run a recorded task differently, and compare."),
        "replay": ("roboco.lab.replay.command:replay_task", "Decide a recorded task again and compare."),
        "export-test": ("roboco.lab.replay.export_test:export_test", "Print a test file that replays a task."),
        "verify": ("commands.verify:verify", "Check that no step of a history was changed."),
        "models": ("commands.models:models", "List the model profiles of a team, or check them by real calls."),
        "mcp": ("commands.mcp:mcp", "List the tools of MCP servers, or be one."),
        "validate": ("commands.validate:validate", "Check a team file and list every mistake."),
        "schema": ("commands.schema:schema", "Print the JSON Schema of team files, for editors."),
        "docs": ("commands.docs:docs", "Show a guide, or list all of them."),
    },
    "Operate": {
        "top": ("top.command:top", "Watch tasks, workers, queues and rates."),
        "drill": (
            "roboco.lab.drill.command:drill",
            "Run a team under faults, in its own stack, and check the promises.",
        ),
        "doctor": ("doctor.command:doctor", "Check everything that a deployment needs."),
        "usage": ("usage.command:usage", "Report turns, tokens, calls and cost."),
        "health": ("commands.health:health", "Check the worker that shares ROBOCO_HEALTH_DIR with this command."),
        "erase": ("removal.erase:erase", "Erase a task, or all tasks that meet conditions."),
        "memory": ("removal.memory:memory", "Show what agents remember for an owner, or erase it."),
        "export": ("removal.transfer:export_task", "Write an ended task to a tar file."),
        "retention": ("removal.retention:retention", "List tasks that the retention removes."),
        "keys": ("gateway.keys:keys", "Create, list or revoke keys of the HTTP gateway."),
        "workers": ("operator.workers:workers", "List the workers, and what each of them runs."),
        "drain": ("operator.drain:drain", "Let a worker end with the work that it has, and exit."),
        "switch": ("operator.switch:switch", "Switch a queue, tenant, team, agent, model or tool off or on."),
        "dead-letters": ("commands.dead_letters:dead_letters", "List, requeue or dismiss dead letters."),
    },
}
"""The commands by section: the place of each, in full or below `roboco.cli`, and the first line of its help."""
_LOCATIONS: Final = {name: place for section in _COMMANDS.values() for name, (place, _) in section.items()}


class Commands(click.Group):
    """The commands, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of the help."""
        return list(_LOCATIONS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or return None if there is none of this name."""
        if cmd_name not in _LOCATIONS:
            return None
        module, _, attribute = _LOCATIONS[cmd_name].partition(":")
        full_name = module if module.startswith("roboco.") else f"roboco.cli.{module}"
        command: click.Command = getattr(importlib.import_module(full_name), attribute)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands or options that begin so. No command is imported for that."""
        texts = {name: text for entries in _COMMANDS.values() for name, (_, text) in entries.items()}
        found = [CompletionItem(name, help=text) for name, text in texts.items() if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name. Raise UsageError with the nearest names if there is none."""
        name = args[0]
        if name in _LOCATIONS or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"No such command {name!r}.{_suggestion(name)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in sections."""
        for section, entries in _COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in entries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the exit codes and the format of errors."""
        with formatter.section("Exit codes"):
            formatter.write_dl(EXIT_CODES)
        formatter.write_paragraph()
        formatter.write_text(ERROR_FORMAT)


def _suggestion(name: str) -> str:
    """Return a question with the commands that begin with the name or resemble it, or "" if there are none."""
    near = [command for command in _LOCATIONS if name and command.startswith(name)]
    near = near or difflib.get_close_matches(name, _LOCATIONS)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


@click.group(cls=Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="roboco", prog_name="roboco")
@click.pass_context
def commands(context: click.Context) -> None:
    """Teams of LLM agents on the Celery workers you already operate."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> NoReturn:
    """Run the command line and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # an agent may write characters that the terminal cannot show
    install_signal_handlers()
    code = run(sys.argv[1:])
    if code > SIGNALLED:  # a thread may wait for a server, and would delay the end of the process
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run a command line, print its error if it fails, and return the exit code."""
    as_json = wants_json(arguments)
    try:
        code: Any = commands.main(arguments, prog_name="roboco", standalone_mode=False)
    except click.ClickException as error:
        return report_usage(error, as_json)
    except RobocoError as error:
        return report(error, as_json)
    except click.Abort as error:
        return report_abort(error)
    return code if isinstance(code, int) else SUCCESS


if __name__ == "__main__":
    main()

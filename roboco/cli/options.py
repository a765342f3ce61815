"""Options that several commands share."""

import click


def _pairs(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for value in values:
        key, sign, text = value.partition("=")
        if not key or not sign:
            raise click.BadParameter(f"must be KEY=VALUE (found {value!r})")
        pairs[key] = text
    return pairs


context = click.option(
    "--context",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_pairs,
    help="A value for the prompts' templates, as context.KEY; may be repeated.",
)
agent = click.option("--agent", metavar="NAME", help="Who acts first.")
task_id = click.option(
    "--id", "task_id", metavar="TASK_ID", help="The task's id; the same task again is followed, or gone on with."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")

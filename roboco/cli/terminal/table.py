"""plain_table: a table without lines, for lists on a terminal."""

from rich.table import Table


def plain_table(*headings: str) -> Table:
    """Return a table. The cells below ">" are on the right side; these and those below "<" are kept whole."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(
            heading.lstrip("<>"),
            justify="right" if heading.startswith(">") else "left",
            no_wrap=heading.startswith((">", "<")),
            overflow="fold",
        )
    return table

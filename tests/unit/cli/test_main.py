"""The command `roboco` imports a command on its first use, and lists it with the same help before."""

import click
import pytest

from roboco.cli.main import commands


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("sbumit", "No such command 'sbumit'. Did you mean 'submit'?"),
        ("dead", "No such command 'dead'. Did you mean 'dead-letters'?"),
        ("sho", "No such command 'sho'. Did you mean 'show'?"),
        ("zzz", "No such command 'zzz'."),
        ("", "No such command ''."),
    ],
)
def test_an_unknown_command_is_named_with_the_nearest_one(typed: str, message: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        commands([typed], standalone_mode=False)
    assert caught.value.format_message() == message


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (["--verison"], "--version"),
        (["run", "--jsn", "team.yaml"], "--json"),
    ],
)
def test_an_unknown_option_is_named_with_the_nearest_one(arguments: list[str], nearest: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        commands(arguments, standalone_mode=False)
    assert "Did you mean" in caught.value.format_message()
    assert nearest in caught.value.format_message()

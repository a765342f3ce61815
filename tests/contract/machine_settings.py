"""State machines of hypothesis whose commands are a table: the same examples in every run, and no deadlines.

To search for more failures, raise `max_examples` and drop `derandomize`. To examine a failure, add `Phase.shrink`;
that may take minutes.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

MACHINE_SETTINGS = settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


class Command:
    """A command, the strategies of its arguments, and the states of the machine in which it may follow."""

    def __init__(
        self,
        act: Callable[..., object],
        *arguments: st.SearchStrategy[Any],
        when: Callable[[Any], object] = lambda machine: True,
    ) -> None:
        self.act = act
        self.arguments = st.tuples(*arguments)
        self.when = when


class CommandMachine(RuleBasedStateMachine):
    """Runs random commands of a table."""

    commands: ClassVar[Mapping[str, Command]]

    @rule(data=st.data())
    def run_next(self, data: st.DataObject) -> None:
        """Run a random one of the commands that may follow."""
        possible = [name for name, command in self.commands.items() if command.when(self)]
        name = data.draw(st.sampled_from(possible))
        self.run(name, *data.draw(self.commands[name].arguments))

    def run(self, name: str, *arguments: Any) -> None:
        """Run this command."""
        raise NotImplementedError

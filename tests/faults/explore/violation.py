"""The violation of an invariant by a schedule."""


class Violation(AssertionError):
    """A broken invariant. `facts` describe how it is broken."""

    def __init__(self, invariant: str, facts: str) -> None:
        super().__init__(invariant, facts)
        self.invariant = invariant
        self.facts = facts

    def __str__(self) -> str:
        return f"{self.invariant}: {self.facts}"


def require(invariant: str, holds: object, facts: object = "") -> None:
    """Raise Violation unless the invariant holds."""
    if not holds:
        raise Violation(invariant, str(facts))

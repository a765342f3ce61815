"""workers.agents, killing itself once."""

from tests.killing import killing
from workers import agents

app = killing(agents.app, prefork=False)

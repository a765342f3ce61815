"""workers.tools, killing itself once."""

from tests.killing import killing
from workers import tools

app = killing(tools.app, prefork=True)

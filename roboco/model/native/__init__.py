"""native: models by the own protocol of their provider, through pydantic-ai. Start with `wire.py`.

Only `wire.py` may be imported without the extra `roboco[providers]`: the other modules import the library.
"""

"""All ports in memory: a complete deployment that a test runs message by message. Open `world.py` first."""

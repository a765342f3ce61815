"""All ports in memory: a whole deployment that a test runs message by message."""

"""Servers that a command or a test starts on this machine: Valkey, SeaweedFS and a small model."""

"""Workspaces and Redis data that each release has recorded. Every later release reads them and finishes their tasks."""

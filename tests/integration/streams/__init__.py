"""Followers of a task: threads, event loops, server-sent events, and a browser."""

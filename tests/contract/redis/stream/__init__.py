"""Followers of the event and text streams of a task."""

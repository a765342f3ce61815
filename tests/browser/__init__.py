"""Tests of the web view in a real browser. They need the extra `browser` and Chromium."""

"""The modules of the web view that need no browser."""

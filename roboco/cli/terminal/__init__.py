"""The terminal: options, colours, printable text, signals and exit codes. Imports no other package of the CLI."""

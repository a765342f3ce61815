"""A module of tools that ends the process which imports it, as a script without a guard does."""

raise SystemExit(0)

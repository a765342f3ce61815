"""The commands of the HTTP gateway: `serve` runs it, and `keys` manages its keys. Open `serve.py` first."""

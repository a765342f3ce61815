"""The document of the gateway and its routes agree."""

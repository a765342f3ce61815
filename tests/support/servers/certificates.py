"""Certificates of a test's own authority, for servers and for clients."""

import ssl
from pathlib import Path
from urllib.parse import urlencode

import trustme


class Certificates:
    """Files below `folder`: the authority's certificate, a client's with its key, and that of another authority."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self.authority = folder / "authority.pem"
        self.client = folder / "client.pem"
        self.stranger = folder / "stranger.pem"
        self._authority.cert_pem.write_to_path(self.authority)
        self._authority.issue_cert("roboco@example.org").private_key_and_cert_chain_pem.write_to_path(self.client)
        trustme.CA().cert_pem.write_to_path(self.stranger)

    def server(self, *names: str, clients: bool = False) -> ssl.SSLContext:
        """Return the context of a server with these names. With `clients` it requires a client certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert(*names).configure_cert(context)
        if clients:
            self._authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def options(self) -> str:
        """Return the query of a URL for a client that sends its certificate and trusts only this authority."""
        return urlencode({"ssl_ca_certs": self.authority, "ssl_certfile": self.client, "ssl_keyfile": self.client})

"""The web view: a page that shows tasks live, explains and controls them. It uses the gateway's own HTTP API."""

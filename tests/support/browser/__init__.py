"""Support of the browser's tests: begin with `chromium`, then `stack`, `page` and `states`.

All modules but `hostile` and `teams` need Playwright, of the extra `browser`.
"""

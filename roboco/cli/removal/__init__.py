"""Commands that remove tasks from the workspace, and move them as files. They may import the client library."""

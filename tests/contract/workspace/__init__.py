"""Files and histories of the workspace: in a folder, in S3 and in memory."""

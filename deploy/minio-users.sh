#!/bin/sh
# Create the bucket, and for each pool a user that may only read and write tasks. A second run changes nothing.
set -eu
minio() { mc --config-dir /tmp/mc "$@"; }
minio mb --ignore-existing store/roboco
minio admin policy create store roboco-tasks /etc/minio/s3-policy.json
for pool in COORDINATOR AGENTS TOOLS; do
    eval "key=\$S3_ACCESS_KEY_$pool secret=\$S3_SECRET_KEY_$pool"
    printf '%s\n%s\n' "$key" "$secret" | minio admin user add store
    minio admin user info store "$key" | grep -q roboco-tasks || minio admin policy attach store roboco-tasks --user "$key"
done

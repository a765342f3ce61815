#!/bin/sh
# Create the bucket of Roboco in the SeaweedFS of the same network namespace, unless it exists.
set -eu
shell() { echo "$1" | weed shell -master=127.0.0.1:9333 -filer=127.0.0.1:8888; }
shell s3.bucket.list | grep -qw roboco || shell "s3.bucket.create -name roboco"
shell s3.bucket.list | grep -w roboco

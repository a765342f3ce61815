#!/bin/sh
# Create the bucket, and a user for each pool, for the gateway, and for the operator who creates keys of the gateway. All
# of them may read and write tasks; the policies differ in the gateway's keys, and in receipts of erased tasks.
# A second run changes nothing.
set -eu
minio() { mc --config-dir /tmp/mc "$@"; }
minio mb --ignore-existing store/roboco
minio admin policy create store roboco-tasks /etc/minio/s3-policy.json
minio admin policy create store roboco-coordinator /etc/minio/s3-policy-coordinator.json
minio admin policy create store roboco-gateway /etc/minio/s3-policy-gateway.json
minio admin policy create store roboco-operator /etc/minio/s3-policy-operator.json
for user in COORDINATOR AGENTS TOOLS GATEWAY OPERATOR; do
    case $user in
    COORDINATOR) policy=roboco-coordinator ;;
    GATEWAY) policy=roboco-gateway ;;
    OPERATOR) policy=roboco-operator ;;
    *) policy=roboco-tasks ;;
    esac
    eval "key=\$S3_ACCESS_KEY_$user secret=\$S3_SECRET_KEY_$user"
    printf '%s\n%s\n' "$key" "$secret" | minio admin user add store
    minio admin user info store "$key" | grep -q "$policy" || minio admin policy attach store "$policy" --user "$key"
done

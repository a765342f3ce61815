#!/bin/sh
# Start SeaweedFS as an S3 store on port 9000: seaweedfs-start.sh FOLDER
#
# The keys of each pool, of the gateway and of the operator are in variables, and their rights in the policies beside this
# file. There is no other identity. All ports but that of S3 answer to this container alone.
set -eu
umask 077
folder=$1
made=${SEAWEEDFS_MADE:-/run/seaweedfs/s3.json}
here=$(dirname "$0")

policy() { printf '{"name": "%s", "content": "%s"}' "$1" "$(tr -d '\n' <"$here/$2" | sed 's/\\/\\\\/g; s/"/\\"/g')"; }

identities=
for user in COORDINATOR AGENTS TOOLS GATEWAY OPERATOR; do
    case $user in
    COORDINATOR) policy=roboco-coordinator ;;
    GATEWAY) policy=roboco-gateway ;;
    OPERATOR) policy=roboco-operator ;;
    *) policy=roboco-tasks ;;
    esac
    eval "key=\${S3_ACCESS_KEY_$user:?} secret=\${S3_SECRET_KEY_$user:?}"
    case $key$secret in
    *[!A-Za-z0-9_+/=-]*) echo "S3_ACCESS_KEY_$user, S3_SECRET_KEY_$user: use letters, digits and _+/=- only" >&2 && exit 64 ;;
    esac
    if [ ${#secret} -lt 16 ]; then
        echo "S3_SECRET_KEY_$user has ${#secret} characters: use at least 16, for example of openssl rand -hex 24" >&2
        exit 64
    fi
    identities="$identities${identities:+, }{\"name\": \"$user\", \"policyNames\": [\"$policy\"], \
\"credentials\": [{\"accessKey\": \"$key\", \"secretKey\": \"$secret\"}]}"
    unset "S3_ACCESS_KEY_$user" "S3_SECRET_KEY_$user"
done
printf '{"identities": [%s], "policies": [%s, %s, %s, %s]}\n' "$identities" \
    "$(policy roboco-tasks s3-policy.json)" "$(policy roboco-coordinator s3-policy-coordinator.json)" \
    "$(policy roboco-gateway s3-policy-gateway.json)" "$(policy roboco-operator s3-policy-operator.json)" >"$made"
# The only master elects itself: with the default time-out, 10 s, a restarted store answered 503 for 20 s.
exec weed -logtostderr=true server -dir="$folder" -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.volumeSizeLimitMB=1024 \
    -master.electionTimeout=1s \
    -master.telemetry=false -volume.max=0 -volume.preStopSeconds=0 -filer -filer.localSocket=/tmp/filer.sock \
    -s3 -s3.port=9000 -s3.ip.bind=0.0.0.0 -s3.config="$made" -s3.localSocket=/tmp/s3.sock -s3.iam=false \
    -s3.port.iceberg=0 -s3.port.lance=0

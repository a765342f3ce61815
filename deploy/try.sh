#!/bin/sh
# Start Roboco on this host for a trial, run `roboco demo` in it, and print a key of the gateway:
#
#   OPENAI_API_KEY=sk-... deploy/try.sh
#   OPENAI_BASE_URL=http://host.docker.internal:11434/v1 deploy/try.sh     # a model server on this host
#
# The first run writes passwords and image digests to `.env`; later ones use it. `docker compose down` ends all, and
# `docker compose down --volumes` removes the data, too.
set -eu
cd "$(dirname "$0")/.."
if [ ! -e .env ]; then
    if [ -z "${OPENAI_API_KEY:-}${OPENAI_BASE_URL:-}" ]; then
        echo "set OPENAI_API_KEY, or OPENAI_BASE_URL for a model server without a key" >&2
        exit 64
    fi
    (
        umask 077
        trap 'rm -f .env.new' EXIT
        deploy/pin-images.sh >.env.new
        deploy/make-secrets.sh >>.env.new
        echo "OPENAI_API_KEY=${OPENAI_API_KEY:-not-a-key}" >>.env.new
        [ -z "${OPENAI_BASE_URL:-}" ] || echo "OPENAI_BASE_URL=$OPENAI_BASE_URL" >>.env.new
        mv .env.new .env
    )
fi
mkdir -p teams modules
docker compose up --build --detach --wait
tty=
[ -t 0 ] && [ -t 1 ] || tty=-T
docker compose exec $tty gateway roboco demo
# Read as data: a shell would run what a value contains.
operator() { sed -n "s/^S3_$1_KEY_OPERATOR=//p" .env | tail -n 1; }
key=$(docker compose exec -T -e AWS_ACCESS_KEY_ID="$(operator ACCESS)" -e AWS_SECRET_ACCESS_KEY="$(operator SECRET)" \
    gateway roboco keys create trial --scope submit --scope read --scope control --scope approve --scope operate | tail -n 1)
echo
echo "The gateway and its page: http://127.0.0.1:8080, with the key $key"

#!/bin/sh
# Start Roboco on this host for a trial, run `roboco demo` in it, and print a key of the gateway:
#
#   OPENAI_API_KEY=sk-... deploy/try.sh
#   OPENAI_BASE_URL=http://host.docker.internal:11434/v1 deploy/try.sh     # a model server on this host
#
# The first run writes passwords, image digests, and these settings to `.env`: OPENAI_API_KEY, OPENAI_BASE_URL, ROBOCO_TOOL_MODULES
# and ROBOCO_ALLOWLIST. Later runs use it. `docker compose down` ends all, and `docker compose down --volumes` removes the data, too.
set -eu
cd "$(dirname "$0")/.."
if ! docker compose version >/dev/null 2>&1; then
    echo "\`docker compose\` does not run: install Docker with its plugins compose and buildx, docs.docker.com/engine/install" >&2
    exit 69
fi
if [ ! -e .env ]; then
    if [ -z "${OPENAI_API_KEY:-}${OPENAI_BASE_URL:-}" ]; then
        echo "set OPENAI_API_KEY, or OPENAI_BASE_URL for a model server without a key" >&2
        exit 64
    fi
    case ${OPENAI_BASE_URL:-} in
    *://localhost[:/]* | *://127.*)
        echo "OPENAI_BASE_URL is '$OPENAI_BASE_URL', and in a container that is the container itself: write host.docker.internal for this" \
            "host, and let the model server listen at Docker's address of it, such as 172.17.0.1" >&2
        exit 64
        ;;
    esac
    (
        umask 077
        trap 'rm -f .env.new' EXIT
        : "${OPENAI_API_KEY:=not-a-key}"
        : >.env.new
        for name in OPENAI_API_KEY OPENAI_BASE_URL ROBOCO_TOOL_MODULES ROBOCO_ALLOWLIST; do
            eval "value=\${$name:-}"
            case $value in
            *\'*)
                printf '%s\n' "$name contains the quote ', which ends a value in .env: write %27 for it in a URL, and \\u0027 in JSON" >&2
                exit 64
                ;;
            ?*) printf '%s\n' "$name='$value'" >>.env.new ;;
            esac
        done
        deploy/pin-images.sh >>.env.new
        deploy/make-secrets.sh >>.env.new
        mv .env.new .env
    )
fi
unset ROBOCO_WORKSPACE ROBOCO_S3_ENDPOINT_URL ROBOCO_SIGNING_KEYS # Compose would prefer those of `roboco dev` to the values of .env
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

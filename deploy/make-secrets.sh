#!/bin/sh
# Print the passwords and keys of compose.yaml, as lines of `.env`: deploy/make-secrets.sh >> .env
set -eu
for name in COORDINATOR AGENTS TOOLS GATEWAY FLOWER PROBE ADMIN; do echo "REDIS_PASSWORD_$name=$(openssl rand -hex 24)"; done
for name in COORDINATOR AGENTS TOOLS GATEWAY OPERATOR; do
    echo "S3_ACCESS_KEY_$name=roboco-$(openssl rand -hex 4)"
    echo "S3_SECRET_KEY_$name=$(openssl rand -hex 24)"
done
echo "FLOWER_BASIC_AUTH=me:$(openssl rand -hex 12)"
echo "ROBOCO_SIGNING_KEYS=$(openssl rand -hex 32)"
echo "ROBOCO_GATEWAY_COOKIE_SECRET=$(openssl rand -hex 32)"

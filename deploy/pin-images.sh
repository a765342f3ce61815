#!/bin/sh
# Print the variables of compose.yaml that name images, with the current digests of the registries. Keep the lines in
# `.env`. To update, run the script again and review the changed lines. It needs `docker buildx`, which ignores a format that
# begins with `{{.Manifest` (docker/buildx#1175); hence `print`.
set -eu
if ! docker buildx version >/dev/null 2>&1; then
    echo "\`docker buildx\` does not run: install Docker's plugin, the package docker-buildx-plugin, or docker-buildx of Debian" >&2
    exit 69
fi
while read -r name image; do
    digest=$(docker buildx imagetools inspect "$image" --format '{{print .Manifest.Digest}}')
    case $digest in
    sha256:*) echo "$name=$image@$digest" ;;
    *) echo "$image: no digest but '$digest'" >&2 && exit 1 ;;
    esac
done <<IMAGES
PYTHON_IMAGE python:3.13-slim
REDIS_IMAGE redis:8
SEAWEEDFS_IMAGE chrislusf/seaweedfs:4.48
PROMETHEUS_IMAGE prom/prometheus:v3.13.0
NGINX_IMAGE nginx:1.29-alpine
GRAFANA_IMAGE grafana/grafana:12.2.0
IMAGES

#!/bin/sh
# Build the images of compose.yaml from packages of Debian and PyPI, push them to a registry, and print the lines for .env, as
# deploy/pin-images.sh does for published images: build.sh REGISTRY [NAME...]
#
# It needs root, debootstrap, Docker with buildx, and a registry, such as Debian's docker-registry at 127.0.0.1:5000.
# Environment: DEBIAN_MIRROR, the mirror, if not debootstrap's own. PIP_CONF, a pip.conf for the build, and PIP_CA, the certificates that pip trusts.
set -eu
registry=$1
shift
[ $# -gt 0 ] || set -- python redis seaweedfs prometheus nginx
here=$(cd "$(dirname "$0")" && pwd)
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

# Push an image and print its name with the digest that the registry gave it.
push() {
    docker push --quiet "$1" >&2
    docker image inspect --format '{{index .RepoDigests 0}}' "$1"
}

root=${DEBIAN_ROOT:-$made/root} # a folder where debootstrap has installed Debian already
[ -e "$root" ] || debootstrap --variant=minbase trixie "$root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >&2
tar --create --directory "$root" --one-file-system --numeric-owner \
    --exclude './var/cache/apt/*' --exclude './var/lib/apt/lists/*' --exclude './var/log/*' --exclude './proc/*' --exclude './sys/*' --exclude './dev/*' \
    --exclude './usr/share/doc/*' --exclude './usr/share/man/*' --exclude './usr/share/locale/*' --exclude './usr/share/info/*' . \
    | docker import - "$registry/debian:trixie" >&2
debian=$(push "$registry/debian:trixie")

for name; do
    docker build --quiet --target "$name" --build-arg DEBIAN_IMAGE="$debian" --network "${BUILD_NETWORK:-default}" \
        --secret id=pip,src="${PIP_CONF:-/dev/null}" --secret id=ca,src="${PIP_CA:-/dev/null}" \
        --tag "$registry/$name:trixie" --file "$here/Dockerfile" "$here" >&2
    echo "$(echo "$name" | tr a-z A-Z)_IMAGE=$(push "$registry/$name:trixie")"
done

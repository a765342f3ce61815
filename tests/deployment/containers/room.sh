#!/bin/sh
# Run a Docker engine of Debian 13 beside the machine: room.sh make|run|online|offline FOLDER, room.sh in FOLDER COMMAND...
#
# `make` installs Debian 13 into FOLDER/base, and with Docker, Compose, a registry and Kustomize into FOLDER/root. `run` starts the engine in its own
# network, mount and process namespaces, and stays; when it ends, all of them end with it. `in` runs a command there. The
# machine's own engine, network rules and services are not touched. It needs root, debootstrap and cgroups. `make` tries
# downloads three times, and exits with 69 if it gets no packages. However `make` and `run` end, no process and no mount stays.
#
# DEBIAN_MIRROR is the mirror, if not debootstrap's own. ROOM_MOUNTS names folders that appear in the room at the same path, such as the checkout.
set -eu
command=$1 folder=$2
shift 2
root=$folder/root
packages='docker.io docker-cli docker-compose docker-buildx docker-registry iptables iproute2 procps slirp4netns debootstrap
kustomize kubernetes-client openssl curl python3-minimal'

# Return the process of the room that is process 1 inside it.
init() { cat "$folder/pid"; }

# Run a command that downloads, up to three times.
try() { "$@" || { sleep 5 && "$@"; } || { sleep 20 && "$@"; }; }

# Install Debian, of which the base of the images is made: deploy/debian/build.sh with DEBIAN_ROOT.
install_base() {
    rm -rf --one-file-system "$folder/base" # of a run that failed or was ended
    debootstrap --variant=minbase trixie "$folder/base" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
}

# Make the file systems of the machine that Docker needs visible below $root. It runs in the room's own mount namespace.
mount_all() {
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    mkdir -p "$folder/data" "$root/var/lib/docker"
    mount --bind "$folder/data" "$root/var/lib/docker"
    for place in ${ROOM_MOUNTS:-}; do
        mkdir -p "$root$place"
        mount --bind "$place" "$root$place"
    done
    cat /etc/resolv.conf >"$root/etc/resolv.conf"
}

case $command in
make)
    [ ! -e "$root/.made" ] || exit 0
    exec unshare --fork --pid --kill-child --mount --mount-proc sh "$0" install "$folder"
    ;;
install)
    trap 'exit 143' TERM INT
    rm -rf --one-file-system "$root"
    printf 'tries = 3\ndns_timeout = 10\nconnect_timeout = 10\nread_timeout = 60\n' >"$folder/wgetrc"
    export WGETRC="$folder/wgetrc" # debootstrap's wget would wait for minutes, 20 times
    try install_base || exit 69
    cp --archive "$folder/base" "$root"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    cat >"$root/etc/apt/apt.conf.d/99room" <<CONFIGURATION
Acquire::Check-Date "false";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
Acquire::http::Timeout "60";
APT::Update::Error-Mode "any";
CONFIGURATION
    try chroot "$root" apt-get update || exit 69
    chroot "$root" apt-get install --no-install-recommends --simulate --quiet=2 $packages # fails at an unknown name
    try chroot "$root" apt-get install --no-install-recommends --yes --download-only $packages || exit 69
    chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends --yes $packages
    chroot "$root" apt-get clean
    cat >"$root/etc/docker/registry.yaml" <<CONFIGURATION
version: 0.1
storage: {filesystem: {rootdirectory: /var/lib/docker/registry}}
http: {addr: "127.0.0.1:5000", secret: not-used}
log: {level: error}
CONFIGURATION
    touch "$root/.made"
    ;;
run)
    export ROOM_CGROUP="roboco-room-$$"
    setpriv --pdeathsig KILL unshare --fork --pid --kill-child --mount --net --uts --ipc sh "$0" inside "$folder" &
    outer=$!
    trap 'kill -KILL "$(init)" 2>/dev/null || kill -KILL $outer' TERM INT
    wait $outer || wait $outer || true # a signal interrupts the first one; the second one ends after all processes inside
    rm -f "$folder/pid"
    for group in /sys/fs/cgroup/"$ROOM_CGROUP" /sys/fs/cgroup/*/"$ROOM_CGROUP"; do
        [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} +
    done
    ;;
inside)
    read -r process _ </proc/self/stat # as the machine numbers it: this is still the machine's /proc
    mount_all
    ip link set lo up
    exec >"$folder/engine.log" 2>&1
    # Not chroot: the containers of an engine in a chroot would begin in a mount namespace whose root is that of the machine.
    cd "$root"
    mkdir -p mnt/machine
    pivot_root . mnt/machine
    echo "$process" >"/mnt/machine$folder/pid" # from now on a command of the room cannot run a program of the machine
    umount --lazy /mnt/machine
    mkdir -p /var/lib/docker/registry
    docker-registry serve /etc/docker/registry.yaml &
    exec dockerd --cgroup-parent="/$ROOM_CGROUP" --log-level=warn --registry-mirror=http://127.0.0.1:5000
    ;;
online)
    nsenter --target "$(init)" --mount --pid \
        slirp4netns --configure --mtu=1500 --disable-host-loopback 1 tap0 >"$folder/network.log" 2>&1 &
    ;;
offline)
    nsenter --target "$(init)" --mount --pid pkill slirp4netns
    ;;
in)
    exec nsenter --target "$(init)" --mount --net --pid --uts --ipc --wd=/ "$@"
    ;;
esac

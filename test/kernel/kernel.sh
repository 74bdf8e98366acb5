#!/bin/bash
# A real Linux kernel with real drivers in a virtual machine, with the project's deb under systemd in it.
#
#   kernel.sh test [FLAGS]   runs the tests, with flags of `go test` such as -run X
#
# BIN has what `make sbom` makes; NFPM names the nfpm to use.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
GO=${GO:-go}
BIN=${BIN:-$root/bin}

fail() {
    echo "kernel.sh: $*" >&2
    exit 1
}

# disk makes the root file system of the guest: that of the image, with the deb installed by dpkg and what the tests
# need. It runs in a mount namespace of its own, where an overlay keeps the image as it is.
disk() {
    local image=$1 work=$2 guest=$2/guest-root
    mount -t tmpfs none "$work/upper"
    mkdir -p "$work"/upper/{files,work} "$guest"
    mount -t overlay -o "lowerdir=$image/root,upperdir=$work/upper/files,workdir=$work/upper/work" none "$guest"
    mount -t proc none "$guest/proc" # for systemctl
    cp "$work"/accelmux_*.deb "$guest/tmp/accelmux.deb"
    # Debian's own configuration of dpkg syncs each file.
    chroot "$guest" dpkg --force-unsafe-io --install /tmp/accelmux.deb >"$work/dpkg.log" 2>&1 || { cat "$work/dpkg.log" >&2; return 1; }
    mv "$guest/tmp/accelmux.deb" "$guest/opt/" # to be installed again
    install -m 0755 "$work/guest" "$guest/usr/local/bin/guest"
    install -m 0755 "$work/guest" "$guest/opt/container/bin/guest"
    install -m 0644 "$here/kubelet.service" "$guest/etc/systemd/system/"
    chroot "$guest" systemctl --quiet enable accelmux.service kubelet.service
    umount "$guest/proc"
    mke2fs -q -t ext4 -E root_owner=0:0 -d "$guest" "$work/disk" 1500M
}

# kept is whether a machine runs that an earlier run has kept.
kept() { [[ -n ${KEEP:-} && -e $KEEP/pid ]] && kill -0 "$(<"$KEEP/pid")" 2>/dev/null; }

run_tests() {
    local packages image
    [[ $(id -u) == 0 ]] || fail "the guest's file system is made by root: owners, and a chroot for dpkg; run this as root"
    packages=$("$root/test/host/missing.sh" "$here/packages.txt" | tr '\n' ' ')
    [[ -z $packages ]] || fail "the machine lacks programs; install the Debian packages: $packages"
    [[ -x $BIN/accelmux && -d $BIN/sbom ]] || fail "no programs in $BIN: make sbom"
    image=$("$here/image.sh")
    work=$(mktemp -d) # of the trap below, which runs when this function has ended
    trap 'rm -rf --one-file-system "$work"' EXIT
    trap 'exit 130' INT TERM HUP
    mkdir "$work/upper"
    ln -s "$image" "$work/image"
    (cd "$here" && CGO_ENABLED=0 $GO build -o "$work/guest" ./guest && $GO test -c -vet=off -o "$work/kernel.test" .)
    if ! kept; then
        PACKAGERS=deb "$root/deployments/packages/build.sh" "$BIN" "$work" >"$work/nfpm.log" || { cat "$work/nfpm.log" >&2; return 1; }
        unshare --mount --propagation private "$0" disk "$image" "$work"
    fi
    cat "$image/versions"
    "$image/host/usr/lib64/ld-linux-x86-64.so.2" --library-path "$image/host/usr/lib/x86_64-linux-gnu" "$image/host/usr/bin/qemu-system-x86_64" --version | head -n 1
    cd "$here"
    ACCELMUX_KERNEL=$work BIN=$BIN setpriv --pdeathsig KILL "$work/kernel.test" -test.timeout=60m "${@/#-/-test.}" &
    wait $!
}

verb=${1:-}
shift || true
case $verb in
test) run_tests "$@" ;;
disk) disk "$@" ;; # by itself, in a namespace
*)
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac

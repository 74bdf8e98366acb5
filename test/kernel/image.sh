#!/bin/bash
# image.sh: makes what the machine consists of, of Debian packages, and prints the directory that has it:
#
#   host/       QEMU with its libraries and firmware, unpacked, as Debian 12's QEMU has no igb
#   kernel, initramfs
#   root/       the guest's root file system, without accelmux
#   versions    of the packages that matter
#
# It is cached by the text of this file. The guest's root file system with accelmux is made anew by kernel.sh.
set -euo pipefail
SUITE=trixie
# What the guest has beside the essential packages. runc starts containers as on a node.
GUEST=systemd-sysv,udev,kmod,iproute2,pciutils,busybox-static,runc,procps
# Drivers that no scenario needs, a third of all.
UNUSED="drivers/net/wireless drivers/net/ethernet/mellanox drivers/net/ethernet/broadcom drivers/gpu/drm/amd
    drivers/gpu/drm/nouveau drivers/gpu/drm/i915 drivers/gpu/drm/xe drivers/gpu/drm/radeon drivers/media/dvb-frontends
    drivers/media/pci drivers/media/tuners drivers/iio drivers/ata drivers/scsi drivers/infiniband/hw drivers/staging drivers/comedi"

self=$(realpath "$0")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/accelmux-kernel
made=$cache/$(sha256sum "$self" | cut -c1-16)
mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [[ -e $made/versions ]]; then
    echo "$made"
    exit
fi
echo "image.sh: making $made, which takes two minutes and 700 MB" >&2
umask 022
work=$(mktemp -d "$cache/new.XXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
chmod 0755 "$work"

# mirror prints where this machine has its Debian packages from: apt's lists have it.
mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Component: main' \
        "Codename: $(. /etc/os-release && echo "$VERSION_CODENAME")" | head -1
}
MIRROR=$(mirror)
if [[ -z $MIRROR ]]; then
    apt-get update -qq >&2
    MIRROR=$(mirror)
fi
[[ -n $MIRROR ]] || {
    echo "image.sh: apt has no Debian archive of this machine's release: add it to /etc/apt/sources.list" >&2
    exit 1
}

unpack() { # of packages and what they depend on; nothing of them runs
    mmdebstrap --quiet --variant=extract --include="$1" "$SUITE" "$2" "$MIRROR" >&2
}
mmdebstrap --quiet --variant=minbase --include="$GUEST" \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$SUITE" "$work/root" "$MIRROR" >&2
unpack qemu-system-x86,linux-image-amd64 "$work/host"

root=$work/root
release=$(basename "$work"/host/usr/lib/modules/*)
mv "$work"/host/boot/vmlinuz-* "$work/kernel"
mkdir -p "$root/usr/lib/modules"
mv "$work/host/usr/lib/modules/$release" "$root/usr/lib/modules/"
modules=$root/usr/lib/modules/$release
for unused in $UNUSED; do rm -rf "${modules:?}/kernel/$unused"; done
# The machine's processor is slow, and its disk is not.
find "$modules" -name '*.ko.xz' -print0 | xargs -0 -n 64 -P 2 xz -d
chroot "$root" depmod "$release"

# The initramfs has what mounts the root file system, and nothing else.
initramfs=$work/initramfs.d
mkdir -p "$initramfs"/{bin,dev,new,proc}
cp "$root/usr/bin/busybox" "$initramfs/bin/"
load=$(chroot "$root" modprobe --set-version "$release" --show-depends --all virtio_blk ext4 crc32c_generic | awk '$1 == "insmod" && !seen[$2]++ {print $2}')
for module in $load; do cp "$root/$module" "$initramfs/"; done
{
    echo '#!/bin/busybox sh'
    echo '/bin/busybox mount -t devtmpfs none /dev'
    for module in $load; do echo "/bin/busybox insmod /$(basename "$module")"; done
    echo '/bin/busybox mount -t ext4 /dev/vda /new && /bin/busybox mount --move /dev /new/dev'
    echo 'exec /bin/busybox switch_root /new /sbin/init'
} >"$initramfs/init"
chmod 0755 "$initramfs/init"
# The guest's busybox has cpio, the machine may not.
(cd "$initramfs" && find . | "$root/usr/bin/busybox" cpio -o -H newc 2>/dev/null) >"$work/initramfs"

# A guest that waits for nothing and nobody.
rm -rf "$root"/var/{cache,lib}/apt/* "$root"/etc/systemd/system/{timers,getty}.target.wants
rm -f "$root/etc/resolv.conf"
echo accelmux-kernel >"$root/etc/hostname"
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id" # not systemd's work of a first boot
for unit in getty@tty1.service serial-getty@ttyS0.service systemd-timesyncd.service systemd-networkd.service \
    systemd-random-seed.service systemd-journal-flush.service systemd-update-utmp.service systemd-logind.service \
    systemd-user-sessions.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount sys-fs-fuse-connections.mount; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# The root file system of containers.
container=$root/opt/container
mkdir -p "$container"/{bin,dev,proc,sys,tmp}
cp "$root/usr/bin/busybox" "$container/bin/"
for applet in $("$root/usr/bin/busybox" --list); do
    [[ $applet == busybox ]] || ln -s busybox "$container/bin/$applet"
done

rm -rf "$initramfs" "$work"/host/{boot,var/cache}
{
    echo "Linux $release"
    for tree in host root; do
        dpkg-query --admindir="$work/$tree/var/lib/dpkg" --show \
            --showformat='${Package} ${Version}\n' qemu-system-x86 systemd udev runc 2>/dev/null || true
    done
} >"$work/versions"
rm -rf --one-file-system "$cache"/[0-9a-f]*[0-9a-f] # an older text's
mv "$work" "$made"
trap - EXIT
echo "$made"

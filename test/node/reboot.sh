#!/bin/bash
# reboot.sh BOOT-ID: what a reboot does to the node, from inside it: containers are
# gone, and their cgroups, their mounts and what they have in /run; the boot ID is
# another one; kubelet and the container runtime start anew. The control plane goes
# on, as if it were on other machines.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${NODE_STATE:?is set by node.sh}" "${NODE_CGROUP:?is set by node.sh}"
boot_id=/proc/sys/kernel/random/boot_id

"$here/service.sh" kill kubelet containerd || exit
# Shims first, or they report the ends of their containers.
for comm in /proc/[0-9]*/comm; do
    [[ $(cat "$comm" 2>/dev/null) != containerd-shim* ]] || kill -KILL "$(basename "$(dirname "$comm")")"
done
find /sys/fs/cgroup -path "*/$NODE_CGROUP/*" -name cgroup.procs -exec cat {} + | sort -u | xargs --no-run-if-empty kill -KILL 2>/dev/null
# Cgroups that stay would keep kubelet's cadvisor busy for half a minute.
for ((i = 0; i < 1200; i++)); do
    find /sys/fs/cgroup -depth -path "*/$NODE_CGROUP/*" -type d -exec rmdir {} + 2>/dev/null && break
    sleep 0.05
done
awk '$2 ~ "^(/run/containerd/|/run/netns/|/var/lib/kubelet/pods/)" {print $2}' /proc/mounts | sort -r | xargs --no-run-if-empty umount --lazy
rm -rf /run/containerd /run/cdi /run/netns
echo "$1" >"$NODE_STATE/boot_id"
umount "$boot_id" 2>/dev/null # of the reboot before
mount --bind "$NODE_STATE/boot_id" "$boot_id" || exit
"$here/service.sh" start containerd
until ctr version >/dev/null 2>&1; do sleep 0.05; done # kubelet would give up
"$here/service.sh" start kubelet

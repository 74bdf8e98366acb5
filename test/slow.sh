#!/usr/bin/env bash
# Runs a command as on a slow machine: with half a CPU, and beside LOOPS busy loops (default 0).
# Needs root, and the controller cpu of cgroups, of either version.
set -euo pipefail

if [[ -d /sys/fs/cgroup/cpu ]]; then # version 1
    group=/sys/fs/cgroup/cpu/accelmux-slow.$$
    mkdir "$group"
    echo 100000 >"$group/cpu.cfs_period_us"
    echo 50000 >"$group/cpu.cfs_quota_us"
else
    echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
    group=/sys/fs/cgroup/accelmux-slow.$$
    mkdir "$group"
    echo '50000 100000' >"$group/cpu.max"
fi
loops=()
trap '[[ -z ${loops[*]} ]] || kill "${loops[@]}"; rmdir "$group"' EXIT
for ((i = 0; i < ${LOOPS:-0}; i++)); do
    while :; do :; done &
    loops+=($!)
done
(
    echo "$BASHPID" >"$group/cgroup.procs"
    exec "$@"
)

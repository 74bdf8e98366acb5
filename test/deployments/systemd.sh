#!/bin/bash
# Boots this machine's systemd in namespaces and on an overlay of its own, where nothing that it does reaches the machine,
# with the agent's unit, and prints `accelmux status -o json` when two backends run and the resource has its socket. Kubelet
# comes after the agent and has another root directory, which is not there before; it is a socket on which systemd listens.
# The machine has a network interface, which is a device of a backend.
# Usage: systemd.sh BIN UNIT DROP-IN DIR, where DIR is empty.
set -euo pipefail
export bin=$1 unit=$2 dropin=$3 dir=$4
cgroups=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)/accelmux-test-$$
mkdir "$cgroups"
trap 'find "$cgroups" -depth -type d -exec rmdir {} \;' EXIT
mkdir "$dir"/{root,upper,out}
# shellcheck disable=SC2016 # the inner shell expands it
(echo "$BASHPID" >"$cgroups/cgroup.procs" && exec timeout -k 5 300 unshare -mpfuinC --mount-proc --propagation private bash -euc '
    r=$dir/root
    mount -t tmpfs none "$dir/upper"
    mkdir "$dir"/upper/{files,work}
    mount -t overlay -o "lowerdir=/,upperdir=$dir/upper/files,workdir=$dir/upper/work" none "$r"
    mount -t proc proc "$r/proc"
    mount --bind /proc/sys "$r/proc/sys"
    mount -o remount,bind,ro "$r/proc/sys"
    mount -t sysfs sysfs "$r/sys"
    ip link add acme0 type veth peer name acme1
    mount -t cgroup2 none "$r/sys/fs/cgroup"
    for at in dev run tmp var/tmp; do mount -t tmpfs none "$r/$at"; done
    for node in null zero full random urandom tty; do touch "$r/dev/$node"; mount --bind "/dev/$node" "$r/dev/$node"; done
    mkdir -p "$r"/dev/{shm,pts} "$r"/usr/libexec/accelmux "$r"/etc/accelmux "$r"/var/lib/kubelet/{device-plugins,pki,pods} "$r"/run/{cdi,out,systemd/system/accelmux.service.d}
    mount --bind "$dir/out" "$r/run/out"
    rm -rf "$r"/{usr/lib,etc}/systemd/system/*.wants
    cp "$bin/accelmux" "$r/usr/bin/"
    cp -r "$bin"/accelmux-backend-{mock,device}* "$r/usr/libexec/accelmux/"
    echo "{apiVersion: accelmux.io/v1alpha1, kind: NodeConfig, profiles: [{name: p, backends: [{name: mock}, {name: device, settings: {kinds: [{name: acme, id: \"{name}\", match: {class: net, names: [acme0]}, edits: {env: {ACME: \"{name}\"}}}]}}], resources: [{name: example.com/gpu, registration: watcher}]}]}" >"$r/etc/accelmux/node.yaml"
    cd "$r/run/systemd/system"
    cp "$unit" accelmux.service
    cp "$dropin" accelmux.service.d/
    for target in sysinit basic shutdown; do printf "[Unit]\nDefaultDependencies=no\n" >$target.target; done
    printf "[Unit]\nDefaultDependencies=no\nWants=accelmux.service kubelet.socket check.service\n" >test.target
    cat >check.sh <<-"EOF"
	for i in $(seq 1200); do # two minutes, a second or two on a quiet machine
	    accelmux status -o json >/run/out/status 2>/run/out/error && [ "$(grep -c "\"state\": \"running\"" /run/out/status)" -ge 2 ] &&
	        compgen -G "/var/lib/k0s/kubelet/plugins_registry/accelmux-*.sock" >/dev/null && break
	    sleep 0.1
	done
	systemctl status --no-pager accelmux >/run/out/service || true
	grep " /run/accelmux/backends " "/proc/$(systemctl show -P MainPID accelmux)/mounts" >/run/out/mounts
	EOF
    printf "[Unit]\nDefaultDependencies=no\nAfter=accelmux.service\n[Socket]\nListenStream=/var/lib/k0s/kubelet/pod-resources/kubelet.sock\nTimeoutSec=infinity\nExecStartPre=/bin/bash /run/systemd/system/wait.sh\n" >kubelet.socket
    printf "until accelmux status; do sleep 0.1; done\nmkdir -p /var/lib/k0s/kubelet/plugins_registry\n" >wait.sh
    printf "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep infinity\n" >kubelet.service
    printf "[Unit]\nDefaultDependencies=no\n[Service]\nType=oneshot\nExecStart=/bin/bash /run/systemd/system/check.sh\nExecStopPost=/bin/systemctl --no-block exit\n" >check.service
    exec env -i container=other PATH=/usr/bin:/bin:/usr/sbin:/sbin chroot "$r" /lib/systemd/systemd --system --unit=test.target --log-target=console --show-status=no
') </dev/null >"$dir/console" 2>&1 || true
cat "$dir/out/status" || { cat "$dir/console" "$dir"/out/* >&2; exit 1; }

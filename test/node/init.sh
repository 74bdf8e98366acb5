#!/bin/bash
# init.sh: process 1 of the node, in mount, PID, network, IPC and UTS namespaces
# that node.sh up made. Mounts what a node needs over the machine's own, so that
# nothing of it is seen outside, starts the programs, and stays to reap orphans.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${NODE_STATE:?is set by node.sh}" "${NODE_CGROUP:?is set by node.sh}" "${KUBECONFIG:?is set by node.sh}"
say() { printf '%5ss %s\n' "$SECONDS" "$*"; }

mounts() {
    mount --make-rprivate /
    # Whatever is written to these stays in the node.
    local dir layer below=$NODE_STATE/below
    mkdir -p "$below"
    mount --rbind /dev "$below"
    for dir in dev etc var/lib var/log; do
        layer=$NODE_STATE/layers/$dir
        mkdir -p "$layer"/{upper,work}
        mount -t overlay -o "lowerdir=/$dir,upperdir=$layer/upper,workdir=$layer/work" overlay "/$dir"
    done
    for dir in "$below"/*/; do # what is mounted in /dev, such as pts
        ! mountpoint -q "$dir" || mount --rbind "$dir" "/dev/$(basename "$dir")"
    done
    umount --lazy "$below"
    mount -t tmpfs -o mode=0755 tmpfs /run
    mkdir -p /run/lock
    # containerd makes overlays of its own, which must not lie on one. Mounts in
    # kubelet's directory are seen in containers and the other way round.
    for dir in kubelet containerd accelmux; do
        mkdir -p "$NODE_STATE/lib/$dir" "/var/lib/$dir"
        mount --bind "$NODE_STATE/lib/$dir" "/var/lib/$dir"
    done
    # sysfs has the interfaces of the network namespace in which it was mounted.
    mkdir /run/sysfs
    mount -t sysfs sysfs /run/sysfs
    for dir in class/net devices/virtual/net; do
        mount --bind "/run/sysfs/$dir" "/sys/$dir"
    done
    umount --lazy /run/sysfs
    mount --make-rshared /
    mkdir -p /etc/cni/net.d /etc/cdi
    cp "$here/conf/bridge.conflist" /etc/cni/net.d/
    echo "127.0.0.1 localhost node" >/etc/hosts
    rm -f /etc/resolv.conf # may be a link into /run
    echo "nameserver 127.0.0.1" >/etc/resolv.conf
}

# numa pretends two NUMA nodes: CPU i belongs to node i%2. Kubelet learns of them
# from here, through cadvisor.
numa() {
    local dir=/sys/devices/system/node node cpu kb
    kb=$(awk '/^MemTotal/ {print int($2 / 2)}' /proc/meminfo)
    mount -t tmpfs tmpfs $dir
    for node in 0 1; do
        mkdir -p $dir/node$node/hugepages
        printf 'Node %d MemTotal: %d kB\nNode %d MemFree: %d kB\n' $node "$kb" $node "$kb" >$dir/node$node/meminfo
    done
    echo "10 20" >$dir/node0/distance
    echo "20 10" >$dir/node1/distance
    for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
        cpu=${cpu##*/cpu}
        ln -s ../../cpu/cpu"$cpu" $dir/node$((cpu % 2))/cpu"$cpu"
    done
    echo 0-1 | tee $dir/online >$dir/possible
}

network() {
    hostname node
    ip link set lo up
    ip link add node0 type bridge
    ip address add 10.88.0.1/24 dev node0
    # The address of the Service "kubernetes"; the API server listens there.
    ip address add 10.96.0.1/32 dev node0
    ip link set node0 up
    ip route add default via 10.88.0.254 dev node0
    echo 1 >/proc/sys/net/ipv4/ip_forward
}

# cgroups: pods below $NODE_CGROUP, all else in that with -system.
cgroups() {
    local dir
    if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
        mkdir -p "/sys/fs/cgroup/$NODE_CGROUP-system"
        echo $$ >"/sys/fs/cgroup/$NODE_CGROUP-system/cgroup.procs"
        return
    fi
    for dir in /sys/fs/cgroup/{cpu,cpuacct,cpuset,memory,devices,freezer,blkio,pids,systemd,hugetlb}; do
        [[ -d $dir ]] || continue
        [[ ! -e $dir/cgroup.clone_children ]] || echo 1 >"$dir/cgroup.clone_children"
        mkdir -p "$dir/$NODE_CGROUP"{,-system}
        echo $$ >"$dir/$NODE_CGROUP-system/cgroup.procs"
    done
}

# credentials: a token for all that are not pods. The API server makes its own
# certificate, which nobody checks: its network has no way in or out.
credentials() {
    local pki=$NODE_STATE/pki
    mkdir -p "$pki"
    openssl genrsa -out "$pki/sa.key" 2048 2>/dev/null
    echo 'admin,admin,admin,system:masters' >"$pki/tokens.csv"
    cat >"$KUBECONFIG" <<YAML
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://127.0.0.1:443", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: admin}}]
contexts: [{name: node, context: {cluster: node, user: admin}}]
current-context: node
YAML
}

# until_ok WHAT COMMAND...: at most 10 minutes, seconds on a quiet machine.
until_ok() {
    local what=$1 until=$((SECONDS + 600))
    shift
    while ((SECONDS < until)); do
        if "$@" >/dev/null 2>&1; then
            say "$what"
            return
        fi
        sleep 0.1
    done
    echo "the node does not come up: not within 10 minutes: $what ($*)" >&2
    tail -n 20 "$NODE_STATE"/log/*.log >&2
    exit 1
}

mounts
numa
network
cgroups
credentials
"$here/service.sh" start etcd containerd
until_ok "etcd answers" busybox wget -q -O - http://127.0.0.1:2379/health
"$here/service.sh" start apiserver # it would wait 20 s for etcd, and end
until_ok "containerd answers" ctr version
ctr --namespace k8s.io images import --local "$NODE_STATE/busybox.tar" >/dev/null
until_ok "the API server is ready" kubectl get --raw=/readyz
"$here/service.sh" start scheduler controllers kubelet
until_ok "the node is ready" kubectl wait --for=condition=Ready --timeout=1m node/node
until_ok "pods can be made" kubectl get serviceaccount default
touch "$NODE_STATE/ready"
exec >/dev/null 2>&1
trap 'exit 0' TERM
while :; do
    sleep 3600 &
    wait $!
done

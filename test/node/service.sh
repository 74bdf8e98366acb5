#!/bin/bash
# service.sh start|stop|kill NAME...: the programs of the node, for use inside it
# (node.sh exec). stop waits for the end; kill is SIGKILL. A program that ends by itself
# is started again: the API server gives up if its start takes too long. Each program's
# output is in $NODE_STATE/log, its process ID (of the node's own PID namespace) in
# $NODE_STATE/pid.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
: "${NODE_STATE:?is set by node.sh}" "${NODE_CGROUP:?is set by node.sh}" "${KUBECONFIG:?is set by node.sh}"

command_of() {
    local pki=$NODE_STATE/pki
    case $1 in
    etcd)
        command=(etcd --data-dir="$NODE_STATE/etcd" --unsafe-no-fsync --log-level=warn)
        ;;
    containerd)
        command=(containerd --config="$here/conf/containerd.toml" --log-level=info)
        ;;
    apiserver)
        # On all addresses, also that of the Service "kubernetes": so pods reach it
        # without kube-proxy. Webhooks it calls at their pods' addresses, for the same reason.
        command=(kube-apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=443
            --bind-address=0.0.0.0 --advertise-address=10.88.0.1 --endpoint-reconciler-type=none
            --service-cluster-ip-range=10.96.0.0/16 --cert-dir="$pki" --token-auth-file="$pki/tokens.csv"
            --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/sa.key"
            --service-account-signing-key-file="$pki/sa.key" --authorization-mode=Node,RBAC
            --runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true --allow-privileged=true --enable-aggregator-routing --profiling=false --v=1)
        ;;
    scheduler)
        command=(kube-scheduler --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1 --v=2)
        ;;
    controllers)
        command=(kube-controller-manager --kubeconfig="$KUBECONFIG" --leader-elect=false --bind-address=127.0.0.1
            --service-account-private-key-file="$pki/sa.key" --root-ca-file="$pki/apiserver.crt"
            --flex-volume-plugin-dir=/var/lib/kubelet/volume-plugins --v=1)
        ;;
    kubelet)
        command=(kubelet --config="$here/conf/kubelet.yaml"
            --kubeconfig="$KUBECONFIG" --cgroup-root="/$NODE_CGROUP" --hostname-override=node --node-ip=10.88.0.1)
        ;;
    *)
        echo "service.sh: no program is called $1" >&2
        exit 2
        ;;
    esac
}

start() {
    mkdir -p "$NODE_STATE"/{log,pid}
    rm -f "$NODE_STATE/pid/$1"
    setsid "$here/service.sh" keep "$1" >>"$NODE_STATE/log/$1.log" 2>&1 </dev/null &
    until [[ -s $NODE_STATE/pid/$1 ]]; do sleep 0.01; done
}

# keep runs a program until stop takes its process ID away.
keep() {
    local command pid status
    command_of "$1"
    while :; do
        "${command[@]}" &
        pid=$! status=0
        echo $pid >"$NODE_STATE/pid/$1"
        wait $pid || status=$?
        [[ $(cat "$NODE_STATE/pid/$1" 2>/dev/null) == "$pid" ]] || return 0
        echo "service.sh: $1 ended by itself with status $status; it is started again"
        sleep 1
    done
}

# stop NAME SIGNAL
stop() {
    local pid
    pid=$(cat "$NODE_STATE/pid/$1")
    rm -f "$NODE_STATE/pid/$1"
    kill "-$2" "$pid" 2>/dev/null || return 0
    for ((i = 0; i < 4800; i++)); do
        kill -0 "$pid" 2>/dev/null || return 0
        sleep 0.05
    done
    echo "service.sh: $1 (process $pid of the node) is still there minutes after SIG$2" >&2
    return 1
}

verb=${1:-}
shift || true
for name; do
    case $verb in
    start) start "$name" ;;
    stop) stop "$name" TERM ;;
    kill) stop "$name" KILL ;;
    keep) keep "$name" ;;
    *)
        sed -n '2,6s/^# //p' "$0" >&2
        exit 2
        ;;
    esac
done

#!/bin/bash
# A real Kubernetes with one node, on this machine, seen by nothing else on it.
#
#   node.sh test [FLAGS]   runs the tests, with flags of `go test` such as -run X;
#                          on the node that is up, or on one of their own
#   node.sh up             brings a node up, with the images of the programs, and leaves it
#   node.sh exec CMD...    runs a command in it: kubectl, helm, ctr, service.sh, bash ...
#   node.sh down           ends it, and takes away what it left
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
export GO=${GO:-go}
export ACCELMUX_BIN=${ACCELMUX_BIN:-$root/bin} # of the programs; tests run them, too
bin=$ACCELMUX_BIN
NODE_STATE=$(realpath -m "${ACCELMUX_NODE_STATE:-${XDG_STATE_HOME:-$HOME/.local/state}/accelmux-node}")
export NODE_STATE
# What the machine has of a node, by its state directory: pods are in the cgroup of this name, all
# else in that with -system.
NODE_CGROUP=accelmux-node-$(cksum <<<"$NODE_STATE" | cut -d' ' -f1)
export NODE_CGROUP
export KUBECONFIG=$NODE_STATE/kubeconfig
# What kubectl and helm keep of an API server that is gone soon.
export KUBECACHEDIR=$NODE_STATE/cache
lock=/run/lock/$NODE_CGROUP
# mark is the file by which we know the state directory as our own, to delete it.
mark=.accelmux-node

fail() {
    echo "node.sh: $*" >&2
    exit 1
}

need_machine() {
    local packages
    [[ $(id -u) == 0 ]] || fail "a node needs root: namespaces, mounts and cgroups are made; run this as root"
    packages=$("$root/test/host/missing.sh" "$here/packages.txt" | tr '\n' ' ')
    [[ -z $packages ]] || fail "the machine lacks programs; install the Debian packages: $packages"
}

need_programs() { [[ -x $bin/accelmux ]] || fail "no programs in $bin: make build"; }

# one_at_a_time waits until no other run uses the node.
one_at_a_time() {
    mkdir -p "$(dirname "$lock")"
    exec 9>"$lock"
    flock --nonblock 9 && return
    echo "another run has the node of $NODE_STATE; waiting for its end" >&2
    flock 9
}

# alive: and not another process with the same ID, long after.
alive() { [[ -s $NODE_STATE/process ]] && grep -qs init.sh "/proc/$(cat "$NODE_STATE/process")/cmdline"; }

# own_temporary: what a run that is killed leaves goes with the node.
own_temporary() {
    export TMPDIR=$NODE_STATE/tmp
    mkdir -p "$TMPDIR"
}

# up [COMMAND...]: COMMAND runs what holds the node, in front of unshare.
up() {
    local holder i helm
    down # what a node that did not end well left behind
    helm=$(cd "$root" && $GO tool -modfile=deployments/tools.mod -n helm)
    PATH=$("$here/programs/build.sh"):$(dirname "$helm"):$PATH
    [[ ! -e $NODE_STATE ]] || fail "$NODE_STATE is in the way, and not of a node: set ACCELMUX_NODE_STATE to a directory that does not exist"
    mkdir -p "$NODE_STATE"
    touch "$NODE_STATE/$mark"
    own_temporary
    "$here/busybox.sh" "$NODE_STATE/busybox.tar"
    echo "$PATH" >"$NODE_STATE/path"
    "$@" setsid unshare --mount --pid --net --ipc --uts --fork --mount-proc --kill-child \
        "$here/init.sh" >"$NODE_STATE/init.log" 2>&1 </dev/null 9>&- &
    holder=$!
    until [[ -s $NODE_STATE/process ]]; do
        kill -0 $holder 2>/dev/null || break
        # The first child of unshare is process 1 of the node.
        tr -d ' ' <"/proc/$holder/task/$holder/children" >"$NODE_STATE/process" 2>/dev/null || true
        sleep 0.05
    done
    while alive; do # init.sh ends if it does not get on
        if [[ -e $NODE_STATE/ready ]]; then
            echo "the node is up: $(tail -n 1 "$NODE_STATE/init.log")"
            return
        fi
        sleep 0.1
    done
    cat "$NODE_STATE/init.log" >&2
    down
    fail "the node did not come up, see above"
}

# down ends the node and with it, as it is their process 1, all processes in it;
# its namespaces end with these, and so all mounts and interfaces. Only files and
# cgroups stay.
down() {
    local i left=node
    if alive; then
        kill -KILL "$(cat "$NODE_STATE/process")"
    fi
    for ((i = 0; i < 2400; i++)); do # two minutes, a moment on a quiet machine
        # It ends after all others.
        if alive; then
            sleep 0.05
            continue
        fi
        # A cgroup can be removed once its processes are gone.
        find /sys/fs/cgroup/{,*/}"$NODE_CGROUP"{,-system} -depth -type d -exec rmdir {} \; 2>/dev/null || true
        left=$(find /sys/fs/cgroup -maxdepth 2 \( -name "$NODE_CGROUP" -o -name "$NODE_CGROUP-system" \))
        [[ -n $left ]] || break
        sleep 0.05
    done
    [[ -z $left ]] || fail "processes do not end, or their cgroups are left: $left"
    [[ ! -e $NODE_STATE/$mark ]] || rm -rf "$NODE_STATE"
}

inside() {
    alive || fail "no node is up: node.sh up"
    exec nsenter --target "$(cat "$NODE_STATE/process")" --mount --uts --ipc --net --pid --wdns="$PWD" \
        env PATH="$here:$(cat "$NODE_STATE/path")" "$@" 9>&- # what it starts may outlive the lock
}

# import_images: localhost/accelmux:dev, on the machine's C library if there is a
# backend that needs one; and :broken, an agent like it whose backends do not work.
import_images() {
    local images=$NODE_STATE/images base=
    mkdir -p "$images/broken"
    if [[ -x $bin/accelmux-backend-nvidia ]]; then
        base=$NODE_STATE/base.tar
        "$here/base.sh" "$base" "$bin/accelmux-backend-nvidia"
    fi
    cp "$bin/accelmux" "$images/broken/accelmux"
    cp "$bin/accelmux" "$images/broken/accelmux-backend-mock"
    BASE=$base "$root/deployments/docker/archive.sh" "$bin" "$images/dev.tar"
    IMAGE=localhost/accelmux:broken "$root/deployments/docker/archive.sh" "$images/broken" "$images/broken.tar"
    for tar in "$images"/*.tar; do
        (inside ctr --namespace k8s.io images import --local "$tar") >"$NODE_STATE/log/import.log" 2>&1 ||
            fail "import $tar: $(cat "$NODE_STATE/log/import.log")"
    done
}

# test: everything that needs a compiler or a network is done before the node is
# entered. The node dies with this script, however that ends.
run_tests() {
    local own='' status=0
    if [[ -e $NODE_STATE/ready ]] && alive; then
        echo "the node that is up is used"
    else
        own=yes
        trap down EXIT
        trap 'exit 130' INT TERM HUP
        up setpriv --pdeathsig KILL
    fi
    own_temporary
    import_images
    (cd "$here" && CGO_ENABLED=0 $GO test -c -o "$NODE_STATE/node.test" .)
    cd "$here"
    (inside env NODE_SCRIPTS="$here" CHART="$root/deployments/helm/accelmux" BIN="$bin" \
        "$NODE_STATE/node.test" -test.timeout=60m "${@/#-/-test.}") &
    wait $! || status=$?
    return $status
}

verb=${1:-}
shift || true
case $verb in
up)
    need_machine
    one_at_a_time
    need_programs
    if alive; then fail "a node is up already: node.sh down"; fi
    up
    import_images
    ;;
down)
    need_machine
    one_at_a_time
    down
    ;;
test)
    need_machine
    need_programs
    one_at_a_time
    run_tests "$@"
    ;;
exec) inside "$@" ;;
*)
    sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0" >&2
    exit 2
    ;;
esac

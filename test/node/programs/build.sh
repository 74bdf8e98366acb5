#!/bin/bash
# build.sh: builds the node's programs, and prints the directories that hold them
# as a PATH. They are kept in a cache under a key of what they are made of: go.mod,
# go.sum and the version of Go; a second run builds nothing.
set -euo pipefail
cd "$(dirname "$0")"
export CGO_ENABLED=0
cache=${ACCELMUX_NODE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/accelmux-node}
path=
# One build at a time: the second one then finds what it needs.
mkdir -p "$cache"
exec 8>"$cache/lock"
flock 8

# cached MODULE BUILD: runs the function BUILD in MODULE's directory with $out as
# the directory to build into, if the cache has no result of it.
cached() {
    local key out
    key=$(cd "$1" && { go env GOVERSION GOARCH; cat go.mod go.sum ../build.sh; } | sha256sum | cut -c1-16)
    out=$cache/$1-$key
    if [[ ! -d $out ]]; then
        echo "building $1 (minutes, the first time)" >&2
        rm -rf "$out.part" # of a build that was stopped
        mkdir -p "$out.part"
        (cd "$1" && out=$out.part && $2)
        mv "$out.part" "$out"
    fi
    path+=${path:+:}$out
}

version() { go list -m -f '{{.Version}}' "$1"; }

# Without a version these programs call themselves v0.0.0-master, and kubectl and
# kubelet then refuse to work with the API server.
kubernetes() {
    local flags='-s -w' package v
    v=$(version k8s.io/kubernetes)
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        flags+=" -X $package.gitVersion=$v -X $package.gitMajor=$(cut -d. -f1 <<<"${v#v}") -X $package.gitMinor=$(cut -d. -f2 <<<"$v")"
        flags+=" -X $package.gitTreeState=clean -X $package.gitCommit=unknown -X $package.buildDate=1970-01-01T00:00:00Z"
    done
    go build -trimpath -ldflags "$flags" -o "$out/" \
        k8s.io/kubernetes/cmd/{kubelet,kube-apiserver,kube-scheduler,kube-controller-manager,kubectl}
}

etcd() {
    go build -trimpath -ldflags '-s -w' -o "$out/etcd" go.etcd.io/etcd/server/v3
}

containerd() {
    local module=github.com/containerd/containerd/v2
    go build -trimpath -tags "${GO_TAGS:+$GO_TAGS,}no_btrfs,no_devmapper,no_zfs" \
        -ldflags "-s -w -X $module/version.Version=$(version $module)" -o "$out/" \
        $module/cmd/{containerd,containerd-shim-runc-v2,ctr}
}

# Debian's runc cannot move network interfaces into a container: that needs 1.3. It is
# in C where it sets up namespaces. containerd gives all containers that are not privileged a
# filter of system calls, which runc refuses without its tag seccomp.
runc() {
    CGO_ENABLED=1 go build -trimpath -tags "${GO_TAGS:+$GO_TAGS,}seccomp" -ldflags '-s -w' -o "$out/runc" github.com/opencontainers/runc
}

cached kubernetes kubernetes
cached etcd etcd
cached containerd containerd
cached runc runc
echo "$path"

#!/bin/bash
# Fails if one of the repository's Go modules has another Go release than the root, or another
# version of a dependency than another one has: Go's cache then has its packages twice, and all
# that depends on them, which takes most of the time of a first `make check`.
set -euo pipefail
cd "$(dirname "$0")/.."
# Of kubelet, the release that `make check` builds; the others keep what they were released with.
newest=$(test/kubelet/manager/releases.sh | tail -n 1)
mapfile -t modules < <(git ls-files '*.mod' | grep -v 'manager/releases/' && echo "test/kubelet/manager/releases/$newest.mod")
awk '
    # Kubernetes does not build with the cgroups of runc.
    $1 == "require" { $1 = ""; $0 = $0 }
    $2 ~ /^v[0-9]/ && $1 !~ /^github.com\/(accelmux\/accelmux|opencontainers\/cgroups)$/ {
        version[$1] = version[$1] "\n    " FILENAME ": " $2
        seen[$1, $2]++ || different[$1]++
    }
    END {
        for (name in different) if (different[name] > 1) { print name " has several versions:" version[name]; failed = 1 }
        if (failed) print "Set the highest one in each, by go get; -modfile names a file that is not called go.mod."
        exit failed
    }' "${modules[@]}" >&2
toolchain=$(grep '^toolchain ' go.mod)
others=$(git ls-files '*.mod' | xargs grep -L -x "$toolchain" || true)
[[ -z $others ]] || { echo "without \"$toolchain\", the line of go.mod:" $others >&2; exit 1; }

#!/bin/bash
# Builds the program with the kubelet of one release: build.sh RELEASE FILE
# Without a modfile of its own in releases/, a release is the module's own one.
set -euo pipefail
release=$1 file=$(realpath -m "$2")
cd "$(dirname "$0")/.."
flags=()
modfile=manager/releases/$release.mod
if [[ -f $modfile ]]; then
    minor=${release#v}
    flags=(-modfile="$modfile" -tags "kubelet${minor%.*}")
    export CGO_ENABLED=0 # it takes less long, and nothing else is built of it
elif ! grep -q "^	k8s.io/kubernetes $release\$" go.mod; then
    echo "no kubelet $release: there are $(manager/releases.sh | xargs)" >&2
    exit 1
fi
${GO:-go} build -ldflags '-s -w' "${flags[@]}" -o "$file" ./manager

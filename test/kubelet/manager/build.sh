#!/bin/bash
# Builds the program with the kubelet of one release, and what that release depends on:
# build.sh RELEASE FILE
set -euo pipefail
release=$1 file=$(realpath -m "$2")
cd "$(dirname "$0")/.."
modfile=manager/releases/$release.mod
if [[ ! -f $modfile ]]; then
    echo "no kubelet $release: there are $(manager/releases.sh | xargs)" >&2
    exit 1
fi
minor=${release#v}
export CGO_ENABLED=0 # it takes less long, and nothing else is built of it
${GO:-go} build -ldflags '-s -w' -modfile="$modfile" -tags "${GO_TAGS:+$GO_TAGS,}kubelet${minor%.*}" -o "$file" ./manager

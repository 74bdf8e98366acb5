#!/bin/bash
# Fails if the generated code is not what backend.proto gives, or a module pins another Go release than the root.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
go tool -modfile=proto/tools.mod buf generate -o "$tmp"
for f in backend.pb.go backend_grpc.pb.go; do
    if ! cmp -s "$tmp/proto/accelmux/backend/v1/$f" "proto/accelmux/backend/v1/$f"; then
        echo "proto/accelmux/backend/v1/$f is not what backend.proto gives: run make generate" >&2
        exit 1
    fi
done

# Every module is built with the Go release of the root's go.mod.
toolchain=$(grep '^toolchain ' go.mod)
if others=$(git ls-files '*.mod' | xargs grep -L -x "$toolchain") && [[ -n $others ]]; then
    echo "without \"$toolchain\", the line of go.mod:" $others >&2
    exit 1
fi

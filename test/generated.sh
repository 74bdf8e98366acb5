#!/bin/bash
# Fails if the generated code is not what backend.proto gives.
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

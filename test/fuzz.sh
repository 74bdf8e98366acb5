#!/bin/bash
# Runs every fuzz target of the module for the given time each.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
grep -rl --include='*_test.go' '^func Fuzz' core backends test/nvml | while read -r file; do
    sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
        echo "== ${file%/*} $target"
        go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./${file%/*}"
    done
done

#!/bin/bash
# Runs every fuzz target of the module for the given time each.
#
# Before Go 1.27 a run may fail without an input when its time is over, with
# "context deadline exceeded": the coordinator takes the end of its own time for a
# failure, if it looks before the workers were told (https://go.dev/issue/75804).
# Such a run has found nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# only_late: the one complaint of the run is that its time is over.
only_late() {
    [[ $(grep -A1 '^ *--- FAIL: ' "$said") == *$'\n    context deadline exceeded' ]] &&
        ! grep -q 'Failing input written to\|^panic: \|timed out' "$said"
}

run() { # package target
    echo "== $1 $2"
    if go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" 2>&1 | tee "$said"; then
        return
    fi
    only_late || return 1
    echo "   … found nothing: that was the end of its time, see $0"
}

grep -rl --include='*_test.go' '^func Fuzz' core backends proto | while read -r file; do
    sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file" | while read -r target; do
        run "./${file%/*}" "$target"
    done
done

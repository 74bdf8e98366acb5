#!/bin/bash
# Prints the commit that the contract is compared with: the last commit on main
# that does not hold the change at hand. On a branch that is where it left main;
# on main itself, HEAD while the contract has uncommitted changes, else HEAD's
# parent. Prints nothing where that commit has no contract yet.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
contract=proto/accelmux/backend/v1/backend.proto
head=$(git rev-parse -q --verify HEAD) || exit 0
main=$(git rev-parse -q --verify main || git rev-parse -q --verify origin/main || echo "$head")
base=$(git merge-base "$main" "$head" 2>/dev/null || echo "$head")
if [[ $base == "$head" ]] && git diff --quiet HEAD -- proto; then
    base=$(git rev-parse -q --verify "$head^") || exit 0
fi
git cat-file -e "$base:$contract" 2>/dev/null && echo "$base"
exit 0

#!/bin/bash
# missing.sh LIST...: prints the Debian packages that this machine lacks. A line of a list is a package and a command,
# which succeeds only if the machine has what is needed of the package.
set -euo pipefail
while read -r package check; do
    [[ $package == \#* ]] || bash -c "$check" </dev/null >/dev/null 2>&1 || echo "$package"
done < <(cat "$@") | sort -u

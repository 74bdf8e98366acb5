#!/bin/bash
# Lists the releases of kubelet that there are, oldest first.
set -euo pipefail
cd "$(dirname "$0")/.."
{
    ls manager/releases | sed -n 's/\.mod$//p'
    sed -n 's/^\tk8s.io\/kubernetes //p' go.mod
} | sort -V

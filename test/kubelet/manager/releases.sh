#!/bin/bash
# Lists the releases of kubelet that there are, oldest first.
set -euo pipefail
ls "$(dirname "$0")/releases" | sed -n 's/\.mod$//p' | sort -V

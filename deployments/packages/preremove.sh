#!/bin/sh
# Before a removal or an upgrade. A deb says which in a word, an rpm by how many
# versions will be left. An upgrade restarts the service afterwards.
set -e
case "${1:-}" in
remove | 0)
    if [ -d /run/systemd/system ]; then
        systemctl --quiet disable --now accelmux.service accelmux-nvidia-mps.service || true
    fi
    ;;
esac

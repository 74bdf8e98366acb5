#!/bin/sh
# After a removal or an upgrade. /var/lib/accelmux is kept until a deb is purged: it
# says which devices are in use and which are broken.
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
if [ "${1:-}" = purge ]; then
    rm -rf /var/lib/accelmux
fi

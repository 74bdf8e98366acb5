#!/bin/sh
# After an installation or an upgrade, of a deb or an rpm. Nothing is started that
# did not run: the configuration is a sample.
set -e
if command -v systemd-tmpfiles >/dev/null; then
    systemd-tmpfiles --create /usr/lib/tmpfiles.d/accelmux.conf || true
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    systemctl try-restart accelmux.service || true
fi

#!/bin/bash
# base.sh OUT.tar PROGRAM...: a root file system with the machine's C library, or
# whatever else the programs are linked with, and nothing more: a BASE for
# deployments/docker/archive.sh.
set -euo pipefail
out=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
chmod 0755 "$work"
# Lines of ldd: "libc.so.6 => /lib/... (0x...)", and the loader's without an arrow.
ldd "$@" | grep -o '/[^ ]* (0x' | cut -d' ' -f1 | sort -u | while read -r library; do
    install -D -m 0755 "$library" "$work$library"
done
tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work" -cf "$out" .

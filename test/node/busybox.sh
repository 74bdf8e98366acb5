#!/bin/bash
# busybox.sh OUT.tar: an image for the pods of the tests and for kubelet's pause
# container, made of the machine's static busybox: localhost/busybox:test, and the name
# that the examples have for it.
set -euo pipefail
out=$1
images='"localhost/busybox:test","docker.io/library/busybox:1.37"'
busybox=$(command -v busybox)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$work/root"/{bin,dev,etc,proc,sys,tmp} "$work/image"
cp "$busybox" "$work/root/bin/busybox"
for applet in $("$busybox" --list); do
    [[ $applet == busybox ]] || ln -s busybox "$work/root/bin/$applet"
done
chmod 0755 "$work/root"

tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work/root" -cf "$work/image/layer.tar" .
sum() { sha256sum "$1" | cut -d' ' -f1; }
cat >"$work/config.json" <<JSON
{"architecture":"$(go env GOARCH)","os":"linux","created":"1970-01-01T00:00:00Z","config":{"Env":["PATH=/bin"],"Entrypoint":["/bin/sleep","2147483647"]},"rootfs":{"type":"layers","diff_ids":["sha256:$(sum "$work/image/layer.tar")"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"busybox.sh"}]}
JSON
config=$(sum "$work/config.json").json
mv "$work/config.json" "$work/image/$config"
printf '[{"Config":"%s","RepoTags":[%s],"Layers":["layer.tar"]}]\n' "$config" "$images" >"$work/image/manifest.json"
tar -C "$work/image" -cf "$out" manifest.json "$config" layer.tar

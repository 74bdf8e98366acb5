#!/bin/bash
# archive.sh BIN OUT.tar: the image of the Dockerfile's FROM scratch, made of the
# programs in BIN with nothing but tar: an archive for `docker load`, `kind load
# image-archive` or `ctr --namespace k8s.io images import`. The same programs
# give the same archive. IMAGE is its name.
set -euo pipefail
bin=$1 out=$2
image=${IMAGE:-localhost/accelmux:dev}
arch=${ARCH:-$(go env GOARCH)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$work/root"/{etc/accelmux,usr/bin,usr/libexec/accelmux} "$work/image"
install -m 0755 -t "$work/root/usr/bin" "$bin/accelmux"
install -m 0755 -t "$work/root/usr/libexec/accelmux" "$bin"/accelmux-backend-*

pack() { # DIR OUT FILE...: always the same bytes, everything root's
    local dir=$1 tarball=$2
    shift 2
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$dir" -cf "$tarball" "$@"
}
sum() { sha256sum "$1" | cut -d' ' -f1; }

chmod 0755 "$work/root"
pack "$work/root" "$work/image/layer.tar" .
cat >"$work/config.json" <<JSON
{"architecture":"$arch","os":"linux","created":"1970-01-01T00:00:00Z","config":{"User":"0:0","Entrypoint":["/usr/bin/accelmux"],"Cmd":["run"]},"rootfs":{"type":"layers","diff_ids":["sha256:$(sum "$work/image/layer.tar")"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"deployments/docker/archive.sh"}]}
JSON
config=$(sum "$work/config.json").json
mv "$work/config.json" "$work/image/$config"
printf '[{"Config":"%s","RepoTags":["%s"],"Layers":["layer.tar"]}]\n' "$config" "$image" >"$work/image/manifest.json"
mkdir -p "$(dirname "$out")"
pack "$work/image" "$out" manifest.json "$config" layer.tar

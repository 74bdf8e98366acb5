#!/bin/bash
# archive.sh BIN OUT.tar: an image of the programs in BIN made with nothing but tar
# and go: an archive for `docker load`, `kind load image-archive` or `ctr --namespace
# k8s.io images import`. The same programs give the same archive. IMAGE is its name.
#
# BASE is a root file system with a C library, as an uncompressed tar (`docker
# export` of a container of debian:stable-slim, say), for the programs that need one.
# Without it those are left out.
set -euo pipefail
bin=$1 out=$2
image=${IMAGE:-localhost/accelmux:dev}
arch=${ARCH:-$(go env GOARCH)}
base=${BASE:-}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
mkdir -p "$work/root"/{etc/accelmux,usr/bin,usr/libexec/accelmux,usr/share/doc/accelmux} "$work/image"
source=$(cd "$(dirname "$0")/../.." && pwd)
install -m 0644 -t "$work/root/usr/share/doc/accelmux" "$source"/{LICENSE,backends/amd/gpu/amdgpu.ids.LICENSE}
# make image has it; an image for tests may lack it.
[[ ! -f $bin/THIRD_PARTY_NOTICES ]] || install -m 0644 -t "$work/root/usr/share/doc/accelmux" "$bin/THIRD_PARTY_NOTICES"
install -m 0755 -t "$work/root/usr/bin" "$bin/accelmux"
for program in "$bin"/accelmux-*-*; do
    [[ ${program##*/} != *.* ]] || continue # it lies beside a program
    if [[ -z $base ]] && go version -m "$program" | grep -q 'CGO_ENABLED=1$'; then
        echo "archive.sh: $(basename "$program") is left out: it needs a C library, so give a BASE" >&2
        continue
    fi
    install -m 0755 -t "$work/root/usr/libexec/accelmux" "$program"
done
"$source/backends/manifests.sh" "$work/root/usr/libexec/accelmux"

pack() { # DIR OUT FILE...: always the same bytes, everything root's
    local dir=$1 tarball=$2
    shift 2
    tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$dir" -cf "$tarball" "$@"
}
sum() { sha256sum "$1" | cut -d' ' -f1; }

chmod 0755 "$work/root"
pack "$work/root" "$work/image/layer.tar" .
layers='"layer.tar"' sums="\"sha256:$(sum "$work/image/layer.tar")\"" made='{"created":"1970-01-01T00:00:00Z","created_by":"deployments/docker/archive.sh"}'
history=$made files=(layer.tar)
if [[ -n $base ]]; then
    install -m 0644 "$base" "$work/image/base.tar"
    layers="\"base.tar\",$layers" sums="\"sha256:$(sum "$work/image/base.tar")\",$sums"
    history="$made,$made" files=(base.tar layer.tar)
fi
cat >"$work/config.json" <<JSON
{"architecture":"$arch","os":"linux","created":"1970-01-01T00:00:00Z","config":{"User":"0:0","Entrypoint":["/usr/bin/accelmux"],"Cmd":["run"]},"rootfs":{"type":"layers","diff_ids":[$sums]},"history":[$history]}
JSON
config=$(sum "$work/config.json").json
mv "$work/config.json" "$work/image/$config"
printf '[{"Config":"%s","RepoTags":["%s"],"Layers":[%s]}]\n' "$config" "$image" "$layers" >"$work/image/manifest.json"
mkdir -p "$(dirname "$out")"
pack "$work/image" "$out" manifest.json "$config" "${files[@]}"

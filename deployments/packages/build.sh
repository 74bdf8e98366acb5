#!/bin/bash
# build.sh BIN OUT: packs what `make sbom` has made in BIN into a deb and an rpm in OUT. NFPM names the
# nfpm to use. The same sources give the same packages: times are those of the commit.
set -euo pipefail
BIN=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/../.."

read -ra nfpm <<<"${NFPM:-go tool -modfile=deployments/tools.mod nfpm}"
if [[ -z "${VERSION:-}" ]]; then
    # v1.2.3 is 1.2.3, and five commits later 1.2.3+5.gabcdef; before the first tag 0.0.0+gabcdef.
    VERSION=$(git describe --tags --match 'v[0-9]*' 2>/dev/null | sed -E 's/^v//; s/-([0-9]+)-(g[0-9a-f]+)$/+\1.\2/') || true
    VERSION=${VERSION:-0.0.0+g$(git rev-parse --short HEAD)}
fi
ARCH=${ARCH:-$(go env GOARCH)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export BIN VERSION ARCH SOURCE_DATE_EPOCH
for packager in ${PACKAGERS:-deb rpm}; do
    "${nfpm[@]}" package --config deployments/packages/nfpm.yaml --packager "$packager" --target "$out/"
done

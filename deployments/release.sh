#!/bin/bash
# What a release consists of, beside the image. VERSION is its tag, such as v1.2.3.
#
#   release.sh programs BIN OUT      packs what `make sbom` has made in BIN, for this machine: tar.gz, deb, rpm
#   release.sh plugin OUT            builds and packs the kubectl plugin for all platforms, with its krew manifest
#   release.sh chart IMAGE OUT       packs the chart, with IMAGE and this version as its defaults
#   release.sh notes                 prints the version's chapter of CHANGELOG.md
#   release.sh sums OUT              writes OUT/SHA256SUMS
#
# The same sources give the same files. .github/workflows/release.yml calls it.
set -euo pipefail
export LC_ALL=C
version=${VERSION:?the tag, such as v1.2.3}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "release.sh: $version is no version such as v1.2.3" >&2; exit 1; }
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

programs() { # BIN OUT
    local bin arch=${ARCH:-$(go env GOARCH)} name program
    bin=$(realpath "$1")
    name=accelmux-$version-linux-$arch
    mkdir -p "$work/$name"/{bin,libexec,share,sbom}
    install -m 0755 -t "$work/$name/bin" "$bin/accelmux"
    for program in "$bin"/accelmux-*-*; do
        [[ ${program##*/} == *.* ]] || install -m 0755 -t "$work/$name/libexec" "$program" # others lie beside a program
    done
    "$source/backends/manifests.sh" "$work/$name/libexec"
    install -m 0644 -t "$work/$name/share" "$source"/deployments/schema/*.json
    install -m 0644 -t "$work/$name" "$source"/{README.md,LICENSE,backends/amd/gpu/amdgpu.ids.LICENSE} "$bin/THIRD_PARTY_NOTICES"
    install -m 0644 -t "$work/$name/sbom" "$bin"/sbom/accelmux*
    pack "$work" "$name" "$2/$name.tar.gz"
    VERSION=${version#v} ARCH=$arch "$source/deployments/packages/build.sh" "$bin" "$2"
}

plugin() { # OUT
    local out os arch name suffix sum
    out=$(realpath "$1")
    "$source/deployments/supply.sh" notices "$work/THIRD_PARTY_NOTICES"
    sed "s|VERSION|$version|g" "$source/deployments/krew/accelmux.yaml" >"$out/krew-accelmux.yaml"
    for os in linux darwin windows; do
        for arch in amd64 arm64; do
            [[ $os-$arch != windows-arm64 ]] || continue
            suffix=
            [[ $os != windows ]] || suffix=.exe
            name=kubectl-accelmux-$version-$os-$arch
            mkdir "$work/$name"
            (cd "$source/cmd/kubectl-accelmux" && unset GOEXPERIMENT GOFIPS140 && # as in the Makefile
                GOOS=$os GOARCH=$arch GOAMD64=v1 GOARM64=v8.0 CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath' go build -ldflags "-s -w -X main.version=$version" -o "$work/$name/kubectl-accelmux$suffix" .)
            install -m 0644 -t "$work/$name" "$source/LICENSE" "$work/THIRD_PARTY_NOTICES"
            VERSION=$version "$source/deployments/supply.sh" sbom "$work/$name" "$work/$name"
            pack "$work/$name" . "$out/$name.tar.gz"
            sum=$(sha256sum <"$out/$name.tar.gz")
            sed -i "s|SHA256-$os-$arch|${sum%% *}|" "$out/krew-accelmux.yaml"
        done
    done
}

# pack makes an archive of a directory's entry; the same content gives the same file.
pack() { # DIRECTORY ENTRY FILE
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}" \
        -C "$1" -cf - "$2" | gzip -n >"$3"
}

chart() { # IMAGE OUT
    local helm
    read -ra helm <<<"${HELM:-go tool -modfile=$source/deployments/tools.mod helm}"
    cp -r "$source/deployments/helm/accelmux" "$work/"
    sed -i "s|^  repository: \"\"$|  repository: $1|" "$work/accelmux/values.yaml"
    grep -q "^  repository: $1$" "$work/accelmux/values.yaml"
    "${helm[@]}" package "$work/accelmux" --version "${version#v}" --app-version "$version" --destination "$2"
}

notes() {
    awk -v head="## ${version#v}" '$0 == head || index($0, head " ") == 1 {found = 1; next} found && /^## / {exit} found {print} END {exit !found}' \
        "$source/CHANGELOG.md" || { echo "release.sh: CHANGELOG.md has no chapter ## ${version#v}" >&2; exit 1; }
}

sums() { # OUT
    (cd "$1" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs -d '\n' sha256sum >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
}

case ${1:-} in
programs | plugin | chart | notes | sums) "$@" ;;
*) sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

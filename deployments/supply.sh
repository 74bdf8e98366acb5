#!/bin/bash
# What accelmux is made of: licences, SBOMs and known vulnerabilities. supply.mod pins the tools.
#
#   supply.sh licenses          fails for a dependency whose licence is not allowed
#   supply.sh notices OUT       writes the licences and notices of all that the programs contain
#   supply.sh sbom BIN OUT      writes an SBOM (CycloneDX 1.6) of each program in BIN: OUT/PROGRAM.cdx.json
#   supply.sh vulnerabilities   fails if a program calls what is known to be vulnerable
#
# All but vulnerabilities need nothing from the network but Go modules, and give the same for the same sources.
set -euo pipefail
export LC_ALL=C
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# Licences of what the programs contain, and of what the tests import. MPL-2.0 asks for the source code of
# its own files only; the notices say where that is.
allowed=Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0
own=github.com/accelmux/accelmux
# Not checked: our own packages, and psx, which is under the BSD's licence or, as one likes, the GPL.
unchecked=$own,kernel.org/pub/linux/libs/security/libcap/psx
# The plugin's code differs by the system that it runs on.
systems=(linux darwin windows)

# tool prints where a tool is, after it was built for this machine, always in the same way: an SBOM has the
# checksum of its maker. The flags are those of the Makefile, whose packages it shares.
tool() { (cd "$source" && env -u GOOS -u GOARCH -u GOEXPERIMENT -u GOFIPS140 GOAMD64=v1 GOARM64=v8.0 GOFLAGS='-buildvcs=false -trimpath -tags=grpcnotrace,netgo,osusergo' go tool -modfile=deployments/supply.mod -n "$1"); }

licenses() {
    local checker module system
    checker=$(tool go-licenses)
    check() { # DIRECTORY WHAT ARGUMENT...
        local dir=$1 what=$2
        shift 2
        echo "licences of $what"
        (cd "$dir" && quietly "$checker" check "$@")
    }
    for module in . test/kubelet test/slices test/deployments test/node; do
        check "$source/$module" "module $module" --ignore=$unchecked --allowed_licenses=$allowed --include_tests ./...
    done
    for system in "${systems[@]}"; do
        GOOS=$system check "$source/cmd/kubectl-accelmux" "kubectl-accelmux on $system" --ignore=$unchecked --allowed_licenses=$allowed --include_tests ./...
    done
    # Tools are neither shipped nor linked: any free licence will do, also the GPL's. Those whose licence is not
    # recognised: chroma has a font (OFL), forbidigo and makezero Apache's short notice, asm is MIT-0, gofmt Go's own.
    for module in tools proto/tools deployments/tools deployments/supply; do
        mkdir -p "$work/$module"
        cp "$source/$module.mod" "$work/$module/go.mod"
        cp "$source/$module.sum" "$work/$module/go.sum"
        check "$work/$module" "the tools of $module.mod" --disallowed_types=forbidden,unknown \
            --ignore=github.com/{alecthomas/chroma,ashanbrown,segmentio/asm,golangci/gofmt} tool
    done
}

# quietly runs go-licenses without its warnings of assembly code and C headers, which it does not read.
quietly() {
    local log
    log=$(mktemp -p "$work")
    "$@" 2>"$log" || { grep -v 'non-Go code\|^/' "$log" >&2; return 1; }
}

notices() { # OUT
    local out checker system
    out=$(realpath -m "$1")
    checker=$(tool go-licenses)
    (cd "$source" && GOOS=linux CGO_ENABLED=1 quietly "$checker" save --ignore=$own --save_path="$work/agent" ./cmd/...)
    for system in "${systems[@]}"; do
        (cd "$source/cmd/kubectl-accelmux" && GOOS=$system CGO_ENABLED=0 quietly "$checker" save --ignore=$own --save_path="$work/$system" .)
    done
    mkdir -p "$work/go/Go"
    install -m 0644 -t "$work/go/Go" "$(go env GOROOT)"/{LICENSE,PATENTS}
    cat >"$work/notices" <<'TEXT'
accelmux contains the software below: the Go standard library, and Go modules. The source code of each is
that of the Go module of its name, in the version that `go version -m PROGRAM` prints; those licensed under
the Mozilla Public License are unchanged.
TEXT
    # Each text once, under the names of all that have it.
    (cd "$work" && find agent go "${systems[@]}" -type f \( -iname 'licen[cs]e*' -o -iname 'notice*' -o -iname 'copying*' -o -iname 'patents*' \) |
        sort | xargs -d '\n' sha256sum | awk '{
            name = $2; sub("^[^/]*/", "", name)
            if (!($1 in file)) { file[$1] = $2; order[++n] = $1 }
            if (!(($1, name) in seen)) { seen[$1, name]; names[$1] = names[$1] name "\n" }
        } END {
            for (i = 1; i <= n; i++) {
                print "\n----------------------------------------------------------------------\n" names[order[i]]
                while ((getline line < file[order[i]]) > 0) print line
                close(file[order[i]])
            }
        }') >>"$work/notices"
    install -D -m 0644 "$work/notices" "$out"
}

sbom() { # BIN OUT
    local maker program name version=${VERSION:-unknown}
    maker=$(tool cyclonedx-gomod)
    mkdir -p "$2"
    for program in "$1"/accelmux "$1"/accelmux-*-* "$1"/kubectl-accelmux*; do
        [[ -f $program && -x $program ]] || continue # not what lies beside a program
        name=$(basename "$program" .exe)
        "$maker" bin -json -std -noserial -notimestamp -version "$version" -output "$2/$name.cdx.json" "$program"
        # The plugin has the agent's module from this directory.
        sed -i "s|golang/\.\./\.\.@(devel)|golang/$own@$version|; s|\"\.\./\.\.\"|\"$own\"|; s|\"(devel)\"|\"$version\"|" "$2/$name.cdx.json"
    done
}

vulnerabilities() {
    local version data failed=0
    # The module has a copy of the database, so that what modules come from is enough.
    if ! version=$(cd "$source" && go list -m -f '{{.Version}}' golang.org/x/vulndb@latest) ||
        ! data=$(go mod download -json "golang.org/x/vulndb@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p') || [[ ! -d $data/data/osv ]]; then
        echo "${GITHUB_ACTIONS:+::warning::}VULNERABILITIES WERE NOT CHECKED: there is no data, as the module golang.org/x/vulndb cannot be had" >&2
        return 0
    fi
    echo "vulnerabilities known in $version, $(go env GOVERSION)"
    for module in . cmd/kubectl-accelmux; do
        (cd "$source/$module" && "$(tool govulncheck)" -db "file://$data/data/osv" ./... ) || failed=1
    done
    return $failed
}

case ${1:-} in
licenses | notices | sbom | vulnerabilities) "$@" ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

#!/bin/bash
# Adds a release of kubelet: add.sh v1.36.3 makes releases/v1.36.3.mod, with the
# dependencies that k8s.io/kubernetes has in that release. The constraints of the
# files here must know its minor version, too. Staging modules that cannot be had in
# that version are given as further arguments, with another: k8s.io/api@v0.36.2
set -euo pipefail
release=$1
cd "$(dirname "$0")/.."
modfile=manager/releases/$release.mod
minor=${release#v}
minor=${minor%.*}
go=${GO:-go}
kubernetes=$($go mod download -json "k8s.io/kubernetes@$release" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
{
    printf 'module %s\n\ngo %s\n\n' "$($go list -m)" "$($go list -m -f '{{.GoVersion}}')"
    printf 'require k8s.io/kubernetes %s\n\n' "$release"
    echo "// The released staging modules of that version."
    echo "replace ("
    sed -n 's/^\t\?\(replace \)\?\(k8s.io\/[a-z-]*\) => .\/staging.*/\2/p' "$kubernetes" | sort -u |
        sed "s|.*|\t& => & v0.${release#v1.}|"
    echo ")"
} >"$modfile"
for other in "${@:2}"; do
    $go mod edit -replace "${other%@*}=$other" "$modfile"
done
rm -f "${modfile%.mod}.sum"
CGO_ENABLED=0 $go build -mod=mod -modfile="$modfile" -tags "kubelet$minor" -o /dev/null ./manager

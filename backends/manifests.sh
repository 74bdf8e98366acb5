#!/bin/bash
# Installs what the core reads beside a program before it starts it: the manifest, and its schemas and presets. The names are
# those that core/manifest looks for: PROGRAM.yaml, PROGRAM.settings.schema.json, PROGRAM.presets/NAME.yaml. Nobody but the
# owner may write them, whatever the umask: the agent would refuse to run the program.
#
#   manifests.sh DIR              for the programs in DIR: accelmux-backend-NAME has the files of backends/NAME
#   manifests.sh SOURCE PROGRAM   for one program that has those of the directory SOURCE
set -euo pipefail
backends=$(cd "$(dirname "$0")" && pwd)

beside() { # SOURCE PROGRAM
    local source=$1 program=$2 file
    for file in "$program".*.schema.json "$program.presets"/*.yaml; do # that the source no longer has
        [[ -f $source/${file#"$program".} ]] || rm -f "$file"
    done
    # -C leaves what is current as it is: agents that run from there would see other files.
    install -C -m 0644 "$source/manifest.yaml" "$program.yaml"
    for file in "$source"/*.schema.json; do
        [[ ! -f $file ]] || install -C -m 0644 "$file" "$program.${file##*/}"
    done
    if [[ ! -d $source/presets ]]; then
        rm -rf "$program.presets"
        return
    fi
    [[ -d $program.presets ]] || install -d -m 0755 "$program.presets"
    install -C -m 0644 -t "$program.presets" "$source"/presets/*.yaml
}

case $# in
1)
    for program in "$1"/accelmux-backend-*; do
        source=$backends/${program##*/accelmux-backend-}
        # A file beside a program has no such directory.
        [[ ! -f $source/manifest.yaml ]] || beside "$source" "$program"
    done
    ;;
2) beside "$1" "$2" ;;
*) sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

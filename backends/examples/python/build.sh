#!/bin/sh
# Makes the backend one executable file, FILE: the program and the code that protoc
# generates from the contract. Usage: build.sh FILE
set -eu
here=$(dirname "$0")
build=$(mktemp -d)
trap 'rm -r "$build"' EXIT
cp "$here/camera.py" "$build/__main__.py"
/usr/bin/python3 -m grpc_tools.protoc -I "$here/../../../proto" --python_out="$build" --grpc_python_out="$build" \
    accelmux/backend/v1/backend.proto
/usr/bin/python3 -m zipapp "$build" -p /usr/bin/python3 -o "$1"

// Package mpstest has stand-ins for NVIDIA's programs of MPS.
package mpstest

import "github.com/accelmux/accelmux/test/sysroot"

// control is an nvidia-cuda-mps-control with faults, which files in its pipe directory
// select.
const control = `#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
	echo start >> starts
	[ -e broken ] && { echo "An instance of this daemon is already running" >&2; exit 1; }
	[ -e silent ] && exit 1
	env > env
	rm -f threads
	sleep 1000 & echo $! > server
	echo $$ > pid.new && mv pid.new pid
	exec sleep 1000
fi
read -r line
[ -e mute ] && exec sleep 1000
[ -e slow ] || kill -0 "$(cat pid 2>/dev/null)" 2>/dev/null || { echo "Cannot find MPS control daemon process"; exit 1; }
[ -e slow ] && exit 1
echo "$line" >> commands
case "$line" in
set_default_active_thread_percentage*) echo "${line#* }.0" > threads ;;
get_default_active_thread_percentage) [ -e lie ] && echo 77.0 || cat threads 2>/dev/null || echo 100.0 ;;
get_server_list) cat servers 2>/dev/null || echo "no server" ;;
get_client_list*) cat clients 2>/dev/null ;;
quit*) [ -e stubborn ] || kill "$(cat pid)" ;;
esac
exit 0
`

// smi is an nvidia-smi that records its arguments.
const smi = `#!/bin/sh
[ -e "$CUDA_MPS_PIPE_DIRECTORY/vgpu" ] && { echo "not supported"; exit 3; }
echo "$@" >> "$CUDA_MPS_PIPE_DIRECTORY/modes"
`

// Install makes both programs at the root of the files, and returns the path of the control
// program.
func Install(files sysroot.Files) (program string) {
	files.Program("nvidia-smi", smi)
	return files.Program("nvidia-cuda-mps-control", control)
}

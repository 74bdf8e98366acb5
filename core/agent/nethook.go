package agent

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// netHook is the program that moves network interfaces into containers. It is with the backends'
// programs, and copied to the state directory, where the container runtime of the host finds it.
const netHook = "accelmux-net-hook"

// netHookMode lets nobody but root open the program: it locks its own file, and who could open that could
// lock it, too, so that no container with a network interface would start.
const netHookMode fs.FileMode = 0o700

// installNetHook copies the program once a device has a network interface.
func (a *Agent) installNetHook(devices []*inventory.Device) {
	if a.opts.HostPaths.netHook == "" || a.netHookInstalled ||
		!slices.ContainsFunc(devices, func(d *inventory.Device) bool { return len(d.Edits.NetDevices) > 0 }) {
		return
	}
	program, err := os.ReadFile(filepath.Join(a.opts.BackendDir, netHook))
	at := filepath.Join(a.opts.StateDir, netHook)
	if before, mode := installed(at); err == nil && (mode != netHookMode || !bytes.Equal(before, program)) {
		err = checkpoint.Writer{}.Replace(at, program, netHookMode)
	}
	if err != nil {
		a.log.Error("containers with network interfaces will not start: the program that moves these was not copied", "error", err)
		return
	}
	a.netHookInstalled = true
}

// installed returns the content and the mode of the program at a path; nothing if it cannot be read.
func installed(path string) ([]byte, fs.FileMode) {
	file, err := checkpoint.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, 0
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, 0
	}
	return text, info.Mode()
}

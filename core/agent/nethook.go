package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// netHook is the program that moves network interfaces into containers. It is with the backends'
// programs, and copied to the state directory, where the container runtime of the host finds it.
const netHook = "accelmux-net-hook"

// installNetHook copies the program once a device has a network interface.
func (a *Agent) installNetHook(devices []*inventory.Device) {
	if a.opts.HostPaths.netHook == "" || a.netHookInstalled ||
		!slices.ContainsFunc(devices, func(d *inventory.Device) bool { return len(d.Edits.NetDevices) > 0 }) {
		return
	}
	program, err := os.ReadFile(filepath.Join(a.opts.BackendDir, netHook))
	at := filepath.Join(a.opts.StateDir, netHook)
	if before, readErr := os.ReadFile(at); err == nil && (readErr != nil || !bytes.Equal(before, program)) {
		err = checkpoint.Writer{}.Replace(at, program, 0o755)
	}
	if err != nil {
		a.log.Error("containers with network interfaces will not start: the program that moves these was not copied", "error", err)
		return
	}
	a.netHookInstalled = true
}

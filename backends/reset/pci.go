package reset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/proto/openfiles"
)

// Function is a PCI function to reset.
type Function struct {
	// Name is the device in messages, such as "GPU GPU-1".
	Name string
	// PCIBusID is its address, in any form of pci.ParseAddress.
	PCIBusID string
	// Nodes are the paths of all device nodes by which processes use it, as processes see them:
	// /dev/nvidia0. Without nodes it cannot be checked whether it is in use, so it is not reset.
	Nodes []string
}

// ByPCI has the kernel reset PCI functions, one after the other
// (Documentation/ABI/testing/sysfs-bus-pci), and returns a message with what was done. The
// kernel does not check whether a device is in use. So ByPCI resets only where it can see all
// processes of the node and none but this one has a node of the functions open. It reaches no other
// function: the kernel refuses to reset a bus or slot that has others (pci_reset_bus_function in
// drivers/pci/pci.c), and ByPCI a function that has virtual ones. Errors are shown
// to operators as they are. It may hang in the kernel: see [Runner].
func ByPCI(ctx context.Context, host sdk.HostPaths, functions ...Function) (string, error) {
	files := make([]string, len(functions))
	for i, f := range functions {
		at, err := pci.ParseAddress(f.PCIBusID)
		if err != nil {
			return "", fmt.Errorf("reset %s by PCI: %w", f.Name, err)
		}
		files[i] = filepath.Join(host.Sysfs, "bus/pci/devices", at.String(), "reset")
		if _, err := os.Stat(files[i]); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("reset %s by PCI: the kernel has no reset for it (no %s)", f.Name, files[i])
		}
		if n, err := sysfs.Uint(filepath.Join(filepath.Dir(files[i]), "sriov_numvfs")); err == nil && n > 0 {
			return "", fmt.Errorf("reset %s by PCI: it has %d virtual functions, which would be reset, too: write 0 to its sriov_numvfs first", f.Name, n)
		}
	}
	if err := Unused(ctx, host, functions...); err != nil {
		return "", err
	}
	var done []string
	for i, f := range functions {
		if ctx.Err() != nil {
			return "", fmt.Errorf("reset %s by PCI: %w", f.Name, ctx.Err())
		}
		// The ABI has 1. The write returns after the reset.
		if err := sysfs.Write(files[i], "1"); err != nil {
			return "", fmt.Errorf("reset %s by PCI: %w", f.Name, err)
		}
		done = append(done, f.PCIBusID)
	}
	return "PCI reset of " + strings.Join(done, ", "), nil
}

// Unused returns an error if a process has one of the functions open, or if that cannot be seen.
// It is for any reset; PCIBusID may be empty.
func Unused(ctx context.Context, host sdk.HostPaths, functions ...Function) error {
	if !openfiles.SeesAll(host.Procfs) {
		return errors.New("a reset needs to see all processes of the node, to know that none uses the device: " +
			"run in the host's PID namespace (hostPID)")
	}
	var nodes []string
	for _, f := range functions {
		if len(f.Nodes) == 0 {
			return fmt.Errorf("a reset needs to know that no process uses %s, but its device nodes are not known", f.Name)
		}
		nodes = append(nodes, f.Nodes...)
	}
	found, err := openfiles.Find(ctx, host.Procfs, nodes...)
	if err != nil {
		return fmt.Errorf("a reset needs to know that no process uses the device: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("no reset while processes have %s open: %s", strings.Join(nodes, ", "), found)
	}
	return nil
}

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
)

// Function is a PCI function to reset.
type Function struct {
	// Name is the device in messages, such as "GPU GPU-1".
	Name string
	// PCIBusID is its address, in any form of pci.ParseAddress.
	PCIBusID string
}

// ByPCI has the kernel reset PCI functions, one after the other
// (Documentation/ABI/testing/sysfs-bus-pci), and returns a message with what was done. The
// kernel does not check whether a device is in use: the core has (inUse: core or look.reset of the manifest), or the caller
// must. It reaches no other function: the kernel refuses to reset a bus or slot that has others (pci_reset_bus_function in
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

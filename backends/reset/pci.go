package reset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Function is a PCI function to reset.
type Function struct {
	// Name is the device in words, such as "GPU GPU-1".
	Name string
	// PCIBusID is its address, in any form of pci.ParseAddress.
	PCIBusID string
	// Nodes are all the device nodes by which processes use it, as processes see them:
	// /dev/nvidia0. Without any nobody can say whether it is in use, so it is not reset.
	Nodes []string
}

// ByPCI has the kernel reset PCI functions, one after the other
// (Documentation/ABI/testing/sysfs-bus-pci), and says in words what was done. The
// kernel asks nobody, so it is done only where all processes of the node can be seen
// and none but this one has a node of the functions open. Errors are sentences for the
// operator. It may hang in the kernel: see [Runner].
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
	}
	if err := free(ctx, host, functions); err != nil {
		return "", err
	}
	var done []string
	for i, f := range functions {
		if ctx.Err() != nil {
			return "", fmt.Errorf("reset %s by PCI: %w", f.Name, ctx.Err())
		}
		if err := trigger(files[i]); err != nil {
			return "", fmt.Errorf("reset %s by PCI: %w", f.Name, err)
		}
		done = append(done, f.PCIBusID)
	}
	return "PCI reset of " + strings.Join(done, ", "), nil
}

// free makes sure that no process has one of the functions open.
func free(ctx context.Context, host sdk.HostPaths, functions []Function) error {
	if !process.SeesAll(host.Procfs) {
		return errors.New("a PCI reset needs to see all processes of the node, to know that none uses the device: " +
			"run in the host's PID namespace (hostPID)")
	}
	var nodes []string
	for _, f := range functions {
		if len(f.Nodes) == 0 {
			return fmt.Errorf("a PCI reset needs to know that no process uses %s, but its device nodes are not known", f.Name)
		}
		nodes = append(nodes, f.Nodes...)
	}
	pids, err := process.Opened(ctx, host.Procfs, nodes...)
	if err != nil {
		return fmt.Errorf("a PCI reset needs to know that no process uses the device: %w", err)
	}
	if len(pids) > 0 {
		return fmt.Errorf("no PCI reset while processes have %s open: %s", strings.Join(nodes, ", "), process.Names(host.Procfs, pids...))
	}
	return nil
}

// trigger writes 1, as the ABI has it. The write returns after the reset.
func trigger(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString("1")
	return errors.Join(err, file.Close())
}

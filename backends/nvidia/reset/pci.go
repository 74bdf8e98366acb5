package reset

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/process"
	"github.com/accelmux/accelmux/backends/pci"
)

// byPCI has the kernel reset the PCI devices, one after the other
// (Documentation/ABI/testing/sysfs-bus-pci).
func (m *Means) byPCI(ctx context.Context, gpus []GPU) (string, error) {
	files := make([]string, len(gpus))
	for i, g := range gpus {
		at, err := pci.ParseAddress(g.PCIBusID)
		if err != nil {
			return "", fmt.Errorf("reset GPU %s by PCI: %w", g.UUID, err)
		}
		files[i] = filepath.Join(m.host.Sysfs, "bus/pci/devices", at.String(), "reset")
		if _, err := os.Stat(files[i]); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("reset GPU %s by PCI: the kernel has no reset for it (no %s)", g.UUID, files[i])
		}
	}
	if err := m.free(ctx, gpus); err != nil {
		return "", err
	}
	var done []string
	for i, g := range gpus {
		if ctx.Err() != nil {
			return "", fmt.Errorf("reset GPU %s by PCI: %w", g.UUID, ctx.Err())
		}
		if err := trigger(files[i]); err != nil {
			return "", fmt.Errorf("reset GPU %s by PCI: %w", g.UUID, err)
		}
		done = append(done, g.PCIBusID)
	}
	return "PCI reset of " + strings.Join(done, ", "), nil
}

// free makes sure that no process has one of the GPUs open.
func (m *Means) free(ctx context.Context, gpus []GPU) error {
	if !process.SeesAll(m.host.Procfs) {
		return errors.New("a PCI reset needs to see all processes of the node, to know that none uses the GPU: " +
			"run in the host's PID namespace (hostPID), or install nvidia-smi in the driver's root")
	}
	var nodes []string
	for _, g := range gpus {
		if g.Minor < 0 {
			return fmt.Errorf("a PCI reset needs to know that no process uses GPU %s, but the number of its node /dev/nvidiaN is not known", g.UUID)
		}
		nodes = append(nodes, fmt.Sprintf("/dev/nvidia%d", g.Minor))
	}
	pids, err := process.Opened(ctx, m.host.Procfs, nodes...)
	if err != nil {
		return fmt.Errorf("a PCI reset needs to know that no process uses the GPU: %w", err)
	}
	if len(pids) > 0 {
		return fmt.Errorf("no PCI reset while processes have %s open: %s", strings.Join(nodes, ", "), process.Names(m.host.Procfs, pids...))
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

package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/accelmux/accelmux/backends/process"
	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Method is how GPUs are reset.
type Method string

// The methods.
const (
	// Auto is the driver where debugfs has its recovery, else PCI.
	Auto Method = "auto"
	// Driver is amdgpu's own recovery (amdgpu_gpu_recover in debugfs). It resets the
	// whole XGMI hive, and ends all that runs on it.
	Driver Method = "driver"
	// PCI is the kernel's own reset of the PCI devices, one after the other.
	PCI Method = "pci"
	// Never resets nothing.
	Never Method = "never"
)

// Settings are how GPUs are reset. The zero value is Auto.
type Settings struct {
	Method Method `json:"method"`
}

// ErrNever means that settings forbid resets.
var ErrNever = errors.New("resets are switched off: reset.method is never")

// GPU is a physical GPU to reset.
type GPU struct {
	// ID names the GPU in messages.
	ID string
	// PCIBusID is as sysfs writes it.
	PCIBusID string
	// Card is N of /dev/dri/cardN; -1 if there is none.
	Card int
	// KFDIDs are the numbers that KFD has for the GPU and its partitions.
	KFDIDs []uint32
}

// Reset resets GPUs, all those of one hive or a single one, and returns what was done. It
// refuses if a process computes on one of them by KFD's list; the core has looked for all others that have them
// open (inUse: core of the manifest). It may hang in the kernel although ctx has ended, and
// must not be called for the same GPUs before it has returned. Errors are shown to operators as
// they are.
func (s Settings) Reset(ctx context.Context, host sdk.HostPaths, gpus []GPU) (done string, err error) {
	method := cmp.Or(s.Method, Auto)
	if method == Never {
		return "", ErrNever
	}
	if len(gpus) == 0 {
		return "", errors.New("there is no GPU to reset")
	}
	if err := free(host, gpus); err != nil {
		return "", err
	}
	recovery, err := recoveryFile(host.Sysfs, gpus)
	switch {
	case method == PCI || method == Auto && errors.Is(err, os.ErrNotExist):
		return reset.ByPCI(ctx, host, functions(gpus)...)
	case err != nil:
		return "", err
	}
	return recoverGPUs(recovery, names(gpus))
}

// free returns an error if a process computes on one of the GPUs.
func free(host sdk.HostPaths, gpus []GPU) error {
	var ids []uint32
	for _, g := range gpus {
		ids = append(ids, g.KFDIDs...)
	}
	pids, err := Computing(host.Sysfs, ids)
	if err != nil {
		return fmt.Errorf("no reset of %s: which processes compute on it is not known: %w", names(gpus), err)
	}
	if len(pids) > 0 {
		return fmt.Errorf("%s is in use by %s: end them, and the reset is tried again", names(gpus), process.Named(host.Procfs, pids...))
	}
	return nil
}

func functions(gpus []GPU) []reset.Function {
	all := make([]reset.Function, len(gpus))
	for i, g := range gpus {
		all[i] = reset.Function{Name: "GPU " + g.ID, PCIBusID: g.PCIBusID}
	}
	return all
}

func names(gpus []GPU) string {
	all := make([]string, len(gpus))
	for i, g := range gpus {
		all[i] = g.ID
	}
	return strings.Join(all, ", ")
}

// Package reset resets GPUs: by NVIDIA's own tool, nvidia-smi, or through the kernel's
// PCI subsystem. It does not use NVML. The caller must have closed NVML, since NVIDIA's
// driver resets no GPU that any process has open, even for monitoring.
package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Method is how GPUs are reset.
type Method string

// The methods.
const (
	// Tool is nvidia-smi --gpu-reset: the driver resets the GPU, and refuses while a
	// process has it open.
	Tool Method = "tool"
	// PCI is the kernel's reset of the PCI device. The kernel does not check for users, so
	// the core looks for them (look.reset of the manifest). So nothing falls back to it.
	PCI Method = "pci"
	// Never forbids resets.
	Never Method = "never"
)

// Settings control how GPUs are reset. The zero value is Tool.
type Settings struct {
	Method Method `json:"method"`
	// Tool is the path of nvidia-smi in the driver's root; by default it is searched
	// in the usual directories.
	Tool string `json:"tool"`
}

// ErrNever means that the settings forbid resets.
var ErrNever = errors.New("resets are switched off: reset.method is never")

// GPU is a GPU to reset.
type GPU struct {
	UUID string
	// PCIBusID is as sysfs writes it.
	PCIBusID string
}

// Means are the methods of this node. They never change.
type Means struct {
	settings Settings
	root     string
	host     sdk.HostPaths
}

// NewMeans returns the means that settings allow. root is the path of the driver's root in this process; "" is "/". It
// becomes the tool's root directory, as a driver in a container requires.
func NewMeans(s Settings, root string, host sdk.HostPaths) *Means {
	s.Method = cmp.Or(s.Method, Tool)
	return &Means{settings: s, root: cmp.Or(root, "/"), host: host}
}

// Reset resets GPUs together and returns a message about what it did. When ctx ends it
// returns at once: the tool is killed, and the runner begins no other reset before the
// tool has ended. Errors are messages for the operator.
func (m *Means) Reset(ctx context.Context, r *reset.Runner, gpus []GPU) (done string, err error) {
	run, err := m.choose(gpus)
	if err != nil {
		return "", err
	}
	return r.Run(ctx, run)
}

// choose returns the function that resets the GPUs.
func (m *Means) choose(gpus []GPU) (func(context.Context) (string, error), error) {
	switch m.settings.Method {
	case Never:
		return nil, ErrNever
	case PCI:
		return func(ctx context.Context) (string, error) { return reset.ByPCI(ctx, m.host, functions(gpus)...) }, nil
	}
	path, err := m.smi().Find()
	if err != nil {
		return nil, fmt.Errorf("%w; where there is none, reset.method: pci has the kernel reset GPUs", err)
	}
	return func(ctx context.Context) (string, error) { return m.byTool(ctx, path, gpus) }, nil
}

// functions returns the GPUs as PCI functions.
func functions(gpus []GPU) []reset.Function {
	all := make([]reset.Function, len(gpus))
	for i, g := range gpus {
		all[i] = reset.Function{Name: "GPU " + g.UUID, PCIBusID: g.PCIBusID}
	}
	return all
}

// Package reset resets GPUs: by NVIDIA's own tool, nvidia-smi, or through the
// kernel's PCI subsystem. It asks no driver; its caller must have let go of it,
// since NVIDIA's driver resets no GPU that any process has open, be it a monitor.
package reset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/accelmux/accelmux/backends/reset"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/tool"
)

// Method says how GPUs are reset.
type Method string

// The methods.
const (
	// Auto is the tool where it is installed, else PCI.
	Auto Method = "auto"
	// Tool is nvidia-smi --gpu-reset: it lets the driver do it, which refuses while
	// anything has the GPU open.
	Tool Method = "tool"
	// PCI is the kernel's own reset of the PCI device. The kernel asks nobody, so it
	// is done only where all processes of the node can be seen and none has the GPU
	// open.
	PCI Method = "pci"
	// Never resets nothing.
	Never Method = "never"
)

// Settings say how GPUs are reset. The zero value is Auto.
type Settings struct {
	Method Method `json:"method"`
	// Tool is the path of nvidia-smi in the driver's root; by default it is looked
	// for in the usual places.
	Tool string `json:"tool"`
}

// ErrNever says that settings forbid resets.
var ErrNever = errors.New("resets are switched off: reset.method is never")

// GPU is a GPU to reset.
type GPU struct {
	UUID string
	// PCIBusID is as sysfs writes it; Minor is N of /dev/nvidiaN, -1 if unknown.
	PCIBusID string
	Minor    int
}

// Means are how GPUs are reset on this node. They never change.
type Means struct {
	settings Settings
	root     string
	host     sdk.HostPaths
}

// NewMeans checks settings. The error is an [sdk.FieldErrors] whose paths begin with at.
// Root is where this process sees the driver's root; "" is "/". It becomes the
// tool's root directory, as a driver in a container expects.
func NewMeans(at string, s Settings, root string, host sdk.HostPaths) (*Means, error) {
	var errs sdk.FieldErrors
	s.Method = cmp.Or(s.Method, Auto)
	switch s.Method {
	case Auto, Tool, PCI, Never:
	default:
		errs.Add(at+".method", "%q is none of the methods: auto, tool, pci or never", s.Method)
	}
	if err := tool.CheckPath(s.Tool); err != nil {
		errs.Add(at+".tool", "%v", err)
	}
	return &Means{settings: s, root: cmp.Or(root, "/"), host: host}, errs.Err()
}

// Reset resets GPUs together and says in words what was done. When ctx ends it is
// abandoned at once: the tool is killed, and no other reset of the runner begins
// before it is over. Errors are sentences for the operator.
func (m *Means) Reset(ctx context.Context, r *reset.Runner, gpus []GPU) (done string, err error) {
	run, err := m.choose(gpus)
	if err != nil {
		return "", err
	}
	return r.Run(ctx, run)
}

// choose says how the GPUs are reset.
func (m *Means) choose(gpus []GPU) (func(context.Context) (string, error), error) {
	byTool := func(path string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return m.byTool(ctx, path, gpus) }
	}
	byPCI := func(ctx context.Context) (string, error) { return reset.ByPCI(ctx, m.host, functions(gpus)...) }
	switch m.settings.Method {
	case Never:
		return nil, ErrNever
	case PCI:
		return byPCI, nil
	}
	path, err := m.smi().Find()
	switch {
	case err == nil:
		return byTool(path), nil
	case m.settings.Method == Auto && errors.Is(err, os.ErrNotExist):
		return byPCI, nil
	}
	return nil, err
}

// functions are the GPUs as PCI functions.
func functions(gpus []GPU) []reset.Function {
	all := make([]reset.Function, len(gpus))
	for i, g := range gpus {
		all[i] = reset.Function{Name: "GPU " + g.UUID, PCIBusID: g.PCIBusID}
		if g.Minor >= 0 {
			all[i].Nodes = []string{fmt.Sprintf("/dev/nvidia%d", g.Minor)}
		}
	}
	return all
}

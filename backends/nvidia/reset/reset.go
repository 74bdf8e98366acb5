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
	"path/filepath"

	"github.com/accelmux/accelmux/backends/sdk"
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

// Resetter resets GPUs, one group at a time, whatever means there are.
type Resetter struct {
	// busy is full while a reset is on its way, also one that was abandoned and
	// does not end.
	busy chan struct{}
}

// New is a resetter; a process has one.
func New() *Resetter { return &Resetter{busy: make(chan struct{}, 1)} }

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
	if s.Tool != "" && (!filepath.IsAbs(s.Tool) || filepath.Clean(s.Tool) != s.Tool) {
		errs.Add(at+".tool", "%q must be an absolute path without . or .., in the driver's root", s.Tool)
	}
	return &Means{settings: s, root: cmp.Or(root, "/"), host: host}, errs.Err()
}

// Reset resets GPUs together and says in words what was done. When ctx ends it is
// abandoned at once: the tool is killed, and no other reset begins before it is
// over. Errors are sentences for the operator.
func (r *Resetter) Reset(ctx context.Context, m *Means, gpus []GPU) (done string, err error) {
	run, err := m.choose(gpus)
	if err != nil {
		return "", err
	}
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return "", fmt.Errorf("an earlier reset has not come to its end: %w", ctx.Err())
	}
	type result struct {
		done string
		err  error
	}
	results := make(chan result, 1)
	go func() {
		defer func() { <-r.busy }()
		done, err := run(ctx)
		results <- result{done, err}
	}()
	select {
	case got := <-results:
		return got.done, got.err
	case <-ctx.Done():
		return "", fmt.Errorf("the reset has not come to its end, and was abandoned: %w", ctx.Err())
	}
}

// choose says how the GPUs are reset.
func (m *Means) choose(gpus []GPU) (func(context.Context) (string, error), error) {
	byTool := func(path string) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return m.byTool(ctx, path, gpus) }
	}
	byPCI := func(ctx context.Context) (string, error) { return m.byPCI(ctx, gpus) }
	switch m.settings.Method {
	case Never:
		return nil, ErrNever
	case PCI:
		return byPCI, nil
	}
	path, err := m.find()
	switch {
	case err == nil:
		return byTool(path), nil
	case m.settings.Method == Auto && errors.Is(err, os.ErrNotExist):
		return byPCI, nil
	}
	return nil, err
}

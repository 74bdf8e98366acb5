package reset

import (
	"context"
	"strings"

	"github.com/accelmux/accelmux/backends/tool"
)

// places are the paths of the tool in distributions and driver containers, in the
// driver's root.
var places = []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi", "/bin/nvidia-smi"}

// smi returns the tool. With the driver's root as its root it also finds nvidia-persistenced,
// and makes that close the GPUs meanwhile.
func (m *Means) smi() tool.Tool {
	paths := places
	if m.settings.Tool != "" {
		paths = []string{m.settings.Tool}
	}
	return tool.Tool{Name: "nvidia-smi", Root: m.root, Paths: paths, Setting: "reset.tool"}
}

// byTool resets the GPUs by the driver.
func (m *Means) byTool(ctx context.Context, path string, gpus []GPU) (string, error) {
	uuids := make([]string, len(gpus))
	for i, g := range gpus {
		uuids[i] = g.UUID
	}
	return m.smi().Run(ctx, path, tool.Call{Args: []string{"--gpu-reset", "-i", strings.Join(uuids, ",")}})
}

// RunTool runs nvidia-smi for something other than a reset, and returns what it said. See [tool.Tool.Run].
func (m *Means) RunTool(ctx context.Context, args ...string) (said string, err error) {
	path, err := m.smi().Find()
	if err != nil {
		return "", err
	}
	return m.smi().Run(ctx, path, tool.Call{Args: args})
}

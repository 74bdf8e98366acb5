package reset

import (
	"context"
	"strings"

	"github.com/accelmux/accelmux/backends/tool"
)

// places are where distributions and driver containers put the tool, in the
// driver's root.
var places = []string{"/usr/bin/nvidia-smi", "/usr/local/nvidia/bin/nvidia-smi", "/opt/bin/nvidia-smi", "/bin/nvidia-smi"}

// smi is the tool. With the driver's root as its own it also finds nvidia-persistenced,
// which it tells to let go of the GPUs meanwhile.
func (m *Means) smi() tool.Tool {
	paths := places
	if m.settings.Tool != "" {
		paths = []string{m.settings.Tool}
	}
	return tool.Tool{Name: "nvidia-smi", Root: m.root, Paths: paths, Setting: "reset.tool"}
}

// byTool has the driver reset the GPUs.
func (m *Means) byTool(ctx context.Context, path string, gpus []GPU) (string, error) {
	uuids := make([]string, len(gpus))
	for i, g := range gpus {
		uuids[i] = g.UUID
	}
	return m.smi().Run(ctx, path, tool.Call{Args: []string{"--gpu-reset", "-i", strings.Join(uuids, ",")}})
}

package nvidia

import (
	"path"

	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/sdk"
)

// needs are those of a driver on the host, in a container of the GPU Operator, and of GKE.
var needs = needsBelow("", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia")

// Needs implements [sdk.Needer].
func (b *Backend) Needs() *sdk.Needs {
	if cfg := b.config(); cfg != nil {
		return cfg.needs
	}
	return nil
}

// needsOf are what settings need beyond that.
func needsOf(s edits.Settings, shared *mps.Config) *sdk.Needs {
	n := &sdk.Needs{}
	if s.DriverRoot != "" {
		n = needsBelow(s.DriverRoot)
	}
	if s.Hook != "" {
		n.Hooks = append(n.Hooks, s.Hook)
	}
	if shared != nil {
		for _, mount := range shared.Edits().GetMounts() {
			n.Mounts = append(n.Mounts, mount.GetHostPath())
		}
	}
	return n
}

// needsBelow has the search paths of nvidia-container-toolkit 1.20 (internal/discover,
// internal/lookup/root, pkg/lookup and pkg/nvcdi) below the roots of a driver.
func needsBelow(roots ...string) *sdk.Needs {
	n := &sdk.Needs{
		ReadPaths:    []string{"/sys/**", "/proc/**"},
		OpenDevices:  []string{"/dev/nvidia*", "/dev/nvidia-caps/*"},
		Capabilities: []string{"CAP_SYS_ADMIN"}, // reset of a GPU by NVML
		DeviceNodes:  []string{"/dev/gdrdrv", "/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"},
		ReadOnlyMounts: []string{
			"/dev/null",                             // edits.visibleDevices: mounts
			"/home/kubernetes/bin/nvidia/vulkan/**", // not in a directory of configuration there
		},
		Hooks: []string{"/usr/bin/nvidia-cdi-hook", "/usr/local/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
		Env:   []string{"NVIDIA_*", "CUDA_MPS_PIPE_DIRECTORY"},
	}
	for _, root := range roots {
		below := func(list *[]string, patterns ...string) {
			for _, pattern := range patterns {
				*list = append(*list, path.Join("/", root, pattern))
			}
		}
		below(&n.ReadPaths, "/usr/**", "/lib/**", "/lib64/**", "/etc/**")
		below(&n.DeviceNodes, "/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*", "/dev/dri/card*", "/dev/dri/renderD*")
		below(&n.Mounts, "/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket",
			"/var/run/nvidia-persistenced/socket", "/var/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps")
		below(&n.ReadOnlyMounts,
			"/usr/lib/**", "/usr/lib64/**", "/usr/local/lib/**", "/usr/local/lib64/**", "/lib/**", "/lib64/**", "/usr/X11R6/**",
			"/usr/share/**", "/usr/local/share/**", // configuration of EGL, GLVND, OptiX, Vulkan and X11
			"/etc/vulkan/**", "/etc/OpenCL/**", "/etc/glvnd/**", "/etc/egl/**", "/etc/nvidia/**",
			"/etc/X11/xorg.conf.d/*nvidia*", "/etc/cufile.json", "/run/udev",
			"/usr/local/sbin/nvidia-*", "/usr/local/bin/nvidia-*", "/usr/sbin/nvidia-*", "/usr/bin/nvidia-*", "/sbin/nvidia-*", "/bin/nvidia-*")
	}
	return n
}

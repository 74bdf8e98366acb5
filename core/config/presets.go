package config

import (
	"maps"
	"slices"
)

// Allowed is what container edits may contain; the lists are as in EditPolicy.
type Allowed struct {
	Devices, Mounts []string
	// ReadOnlyMounts are host paths that may only be mounted read-only.
	ReadOnlyMounts []string
	Hooks, Env     []string
	GIDs           []uint32
}

// presets are what backends need, by the name of the program without CommandPrefix.
var presets = map[string]Allowed{
	"amd": {Devices: []string{"/dev/kfd", "/dev/dri/card*", "/dev/dri/renderD*"}},
	"fpga": {
		Devices: []string{
			"/dev/dfl-*", "/dev/intel-fpga-*", "/dev/uio*", "/dev/fpga*", // Intel
			"/dev/dri/card*", "/dev/dri/renderD*", "/dev/xclmgmt*", "/dev/xfpga/*", // AMD
		},
		Env: []string{"FPGA_*"},
	},
	"mock":       {Env: []string{"ACCELMUX_MOCK_*"}},
	"nvidia":     nvidiaPreset(),
	"nvidia-mps": {Mounts: []string{"/run/accelmux-mps/pipe", "/dev/shm"}, Env: []string{"CUDA_MPS_PIPE_DIRECTORY"}},
}

// nvidiaPreset has the search paths of nvidia-container-toolkit 1.20 (internal/discover,
// internal/lookup/root, pkg/lookup and pkg/nvcdi), for a driver on the host and for a
// driver in a container of the GPU Operator or of GKE. It never allows such a root as a
// whole: that contains the container's /proc, and with hostPID /proc/1/root is the host's root.
func nvidiaPreset() Allowed {
	const operator, gke = "/run/nvidia/driver", "/home/kubernetes/bin/nvidia"
	a := Allowed{
		Devices: []string{"/dev/gdrdrv", "/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm"},
		ReadOnlyMounts: []string{
			"/dev/null",        // edits.visibleDevices: mounts
			gke + "/vulkan/**", // not in a directory of configuration there
		},
		Hooks: []string{"/usr/bin/nvidia-cdi-hook", "/usr/local/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
		Env:   []string{"NVIDIA_*"},
	}
	for _, root := range []string{"", operator, gke} {
		below := func(paths ...string) []string {
			for i, path := range paths {
				paths[i] = root + path
			}
			return paths
		}
		a.Devices = append(a.Devices, below("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*",
			"/dev/dri/card*", "/dev/dri/renderD*")...)
		a.Mounts = append(a.Mounts, below("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket",
			"/var/run/nvidia-persistenced/socket", "/var/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps")...)
		a.ReadOnlyMounts = append(a.ReadOnlyMounts, below(
			"/usr/lib/**", "/usr/lib64/**", "/usr/local/lib/**", "/usr/local/lib64/**", "/lib/**", "/lib64/**", "/usr/X11R6/**",
			"/usr/share/**", "/usr/local/share/**", // configuration of EGL, GLVND, OptiX, Vulkan and X11
			"/etc/vulkan/**", "/etc/OpenCL/**", "/etc/glvnd/**", "/etc/egl/**", "/etc/nvidia/**",
			"/etc/X11/xorg.conf.d/*nvidia*", "/etc/cufile.json", "/run/udev",
			"/usr/local/sbin/nvidia-*", "/usr/local/bin/nvidia-*", "/usr/sbin/nvidia-*", "/usr/bin/nvidia-*", "/sbin/nvidia-*", "/bin/nvidia-*")...)
	}
	return a
}

// Presets returns the names that EditPolicy.Presets may have, sorted.
func Presets() []string { return slices.Sorted(maps.Keys(presets)) }

// Expand returns the union of the lists and the presets.
func (p EditPolicy) Expand() Allowed {
	a := Allowed{
		Devices: slices.Clone(p.Devices), Mounts: slices.Clone(p.Mounts), Hooks: slices.Clone(p.Hooks), Env: slices.Clone(p.Env),
	}
	for _, gid := range p.GIDs {
		a.GIDs = append(a.GIDs, uint32(gid)) //nolint:gosec // validated
	}
	for _, name := range p.Presets {
		preset := presets[name]
		a.Devices = append(a.Devices, preset.Devices...)
		a.Mounts = append(a.Mounts, preset.Mounts...)
		a.ReadOnlyMounts = append(a.ReadOnlyMounts, preset.ReadOnlyMounts...)
		a.Hooks = append(a.Hooks, preset.Hooks...)
		a.Env = append(a.Env, preset.Env...)
	}
	return a
}

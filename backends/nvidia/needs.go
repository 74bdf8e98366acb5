package nvidia

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/mps"
	"github.com/accelmux/accelmux/backends/nvidia/reset"
	"github.com/accelmux/accelmux/backends/sdk"
)

// needs are the needs for a driver that is installed on the host.
var needs = needsBelow("/")

// addProcessNeeds adds what the process itself needs for settings: root is where it sees the driver's.
func (c *config) addProcessNeeds(s settings, root string) {
	n := c.needs
	if root != "" && root != "/" {
		n.ReadPaths = append(n.ReadPaths, root+"/**")
		n.OpenDevices = append(n.OpenDevices, root+"/dev/nvidiactl", root+"/dev/nvidia[0-9]*")
	}
	if s.Library != "" {
		n.ReadPaths = append(n.ReadPaths, path.Dir(s.Library)+"/**")
	}
	if s.MIG.Strategy == migDynamic {
		n.ReadPaths = append(n.ReadPaths, "/dev/nvidia-caps/*") // with the capability to make MIG devices, which is root's alone
	}
	if method := cmp.Or(s.Reset.Method, reset.Auto); method != reset.Never || c.slicing != nil || s.MIG.Strategy == migDynamic {
		// The driver lets only administrators reset GPUs, make MIG devices and set time slices.
		n.Capabilities = append(n.Capabilities, "CAP_SYS_ADMIN")
		if root != "" && root != "/" {
			n.Capabilities = append(n.Capabilities, "CAP_SYS_CHROOT") // nvidia-smi runs in the driver's root
		}
		if method == reset.Auto || method == reset.PCI {
			n.WritePaths = append(n.WritePaths, "/sys/bus/pci/drivers/nvidia/*/**")
		}
	}
	if c.stateFile != "" {
		n.WritePaths = append(n.WritePaths, path.Dir(c.stateFile)+"/**")
	}
	if c.slicing != nil {
		n.WritePaths = append(n.WritePaths, path.Dir(c.slicing.StateFile)+"/**")
	}
	if c.mps != nil {
		n.WritePaths = append(n.WritePaths, c.mps.Socket())
		n.SystemCalls = append(n.SystemCalls, "@network-io") // it asks the daemon
	}
}

// tegraNodes are the device nodes in the system's lists for a Tegra's GPU (devices.csv and
// l4t.csv of JetPack).
var tegraNodes = []string{
	"/dev/nvhost*", "/dev/nvmap", "/dev/nvgpu/*", "/dev/nvgpu/*/*", "/dev/nvsciipc", "/dev/host1x-fence", "/dev/tegra*", "/dev/v4l2-nv*",
	"/dev/capture-*", "/dev/camchar-*", "/dev/fb*",
}

// needsOf returns what settings need beyond that.
func needsOf(s edits.Settings, shared *mps.Config) *sdk.Needs {
	n := &sdk.Needs{}
	if s.DriverRoot != "" {
		n = needsBelow(s.DriverRoot)
		n.ReadOnlyMounts = append(n.ReadOnlyMounts, path.Join(s.DriverRoot, "/vulkan/**")) // GKE's
	}
	if s.Mode == "tegra" {
		n.DeviceNodes = append(n.DeviceNodes, tegraNodes...)
	}
	if s.GDRCopy {
		n.DeviceNodes = append(n.DeviceNodes, "/dev/gdrdrv")
	}
	if s.MOFED {
		n.DeviceNodes = append(n.DeviceNodes, "/dev/infiniband/uverbs*", "/dev/infiniband/rdma_cm")
	}
	if s.DevRoot != "" {
		n.DeviceNodes = append(n.DeviceNodes, needsBelow(s.DevRoot).DeviceNodes...)
	}
	if s.Hook != "" {
		n.Hooks = append(n.Hooks, s.Hook)
	}
	if shared != nil {
		for name := range shared.Edits().GetEnv() {
			n.Env = append(n.Env, name)
		}
		if shared.Claims() {
			n.Env = append(n.Env, slices.Sorted(maps.Keys(mps.Share{Memory: 1, Threads: 1}.Limits(1)))...)
		}
		for _, mount := range shared.Edits().GetMounts() {
			n.Mounts = append(n.Mounts, mount.GetHostPath())
		}
	}
	return n
}

// needsBelow returns the search paths of nvidia-container-toolkit 1.20 (internal/discover,
// internal/lookup/root, pkg/lookup and pkg/nvcdi) below the root of a driver. The root as a whole
// is not needed: the root of a container has the container's /proc, where, with hostPID, 1/root
// is the root of the host.
func needsBelow(root string) *sdk.Needs {
	n := &sdk.Needs{
		// The first capability of MIG is that of making MIG devices; it is opened only for reading, as the others are.
		ReadPaths:      []string{"/sys/**", "/proc/**", "/dev/nvidia-caps/nvidia-cap[2-9]*", "/dev/nvidia-caps/nvidia-cap1?*"},
		OpenDevices:    []string{"/dev/nvidiactl", "/dev/nvidia[0-9]*"},
		ReadOnlyMounts: []string{"/dev/null"}, // edits.visibleDevices: mounts
		Hooks:          []string{"/usr/bin/nvidia-cdi-hook", "/usr/local/bin/nvidia-cdi-hook", "/usr/local/nvidia/toolkit/nvidia-cdi-hook"},
		Env:            []string{"NVIDIA_*"},
	}
	below := func(list *[]string, patterns ...string) {
		for _, pattern := range patterns {
			*list = append(*list, path.Join("/", root, pattern))
		}
	}
	below(&n.ReadPaths, "/usr/**", "/lib/**", "/lib64/**", "/etc/vulkan/**", "/etc/OpenCL/**", "/etc/glvnd/**", "/etc/egl/**", "/etc/nvidia*/**", "/etc/nvidia*",
		"/etc/X11/**", "/etc/cufile.json", "/etc/ld.so.*", "/etc/ld.so.conf.d/**")
	below(&n.DeviceNodes, "/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*", "/dev/dri/card*", "/dev/dri/renderD*")
	below(&n.Mounts, "/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket",
		"/var/run/nvidia-persistenced/socket", "/var/run/nvidia-fabricmanager/socket", "/tmp/nvidia-mps")
	below(&n.ReadOnlyMounts,
		"/usr/lib/**", "/usr/lib64/**", "/usr/local/lib/**", "/usr/local/lib64/**", "/usr/local/nvidia/**", "/lib/**", "/lib64/**", "/usr/X11R6/**",
		"/usr/share/**", "/usr/local/share/**", // configuration of EGL, GLVND, OptiX, Vulkan and X11
		"/etc/vulkan/**", "/etc/OpenCL/**", "/etc/glvnd/**", "/etc/egl/**", "/etc/nvidia/**",
		"/etc/X11/xorg.conf.d/*nvidia*", "/etc/cufile.json", "/run/udev",
		"/usr/local/sbin/nvidia-*", "/usr/local/bin/nvidia-*", "/usr/sbin/nvidia-*", "/usr/bin/nvidia-*", "/sbin/nvidia-*", "/bin/nvidia-*")
	return n
}

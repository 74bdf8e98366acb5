package edits

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Settings control how containers get devices. The zero value is for a driver that is
// installed on the host itself.
type Settings struct {
	// Mode is "cdi" (default), "runtime", or "tegra" for the GPU of a Tegra.
	Mode string `json:"mode"`
	// DriverRoot is where the driver is installed, as a path on the host: "/"
	// (default), or for instance /run/nvidia/driver for a driver in a container.
	DriverRoot string `json:"driverRoot"`
	// DriverRootMount is where this process sees DriverRoot; default the same.
	DriverRootMount string `json:"driverRootMount"`
	// DevRoot is the directory on the host whose dev has NVIDIA's device nodes. Default "/",
	// or the driver root if only that has them.
	DevRoot string `json:"devRoot"`
	// DevRootMount is where this process sees DevRoot; default the same.
	DevRootMount string `json:"devRootMount"`
	// Hook is nvidia-cdi-hook on the host; default /usr/bin/nvidia-cdi-hook.
	Hook string `json:"hook"`
	// DisabledHooks are names of hooks of nvidia-cdi-hook to leave out, "all" for
	// all of them.
	DisabledHooks []string `json:"disabledHooks"`
	// VisibleDevices is how NVIDIA_VISIBLE_DEVICES names a container's devices: "env", or
	// "mounts", for containers with devices of more than one resource. Default "env" in the
	// mode "runtime"; in the mode "cdi" the variable is "void".
	VisibleDevices string `json:"visibleDevices"`
	// DeviceIDs is how it identifies them: "uuid" (default) or "index", NVML's index, which
	// changes with the number of GPUs.
	DeviceIDs string `json:"deviceIDs"`
	// OmitDeviceNodes leaves the device nodes to the NVIDIA runtime. Mode "runtime" only.
	OmitDeviceNodes bool `json:"omitDeviceNodes"`
	// GDS, MOFED and GDRCopy add the nodes of GPUDirect Storage, of InfiniBand and
	// of GDRCopy.
	GDS     bool `json:"gds"`
	MOFED   bool `json:"mofed"`
	GDRCopy bool `json:"gdrcopy"`
	// IMEX adds channels to share memory between nodes.
	IMEX IMEX `json:"imex"`
}

// IMEX are the IMEX channels that a container gets.
type IMEX struct {
	// Channels are their numbers, up to 2^20-1; at most 64.
	Channels []uint32 `json:"channels"`
	// Required makes a missing channel a fault of every device.
	Required bool `json:"required"`
}

// The modes, the ways to set NVIDIA_VISIBLE_DEVICES, and the kinds of IDs in it.
const (
	modeCDI     = "cdi"
	modeRuntime = "runtime"
	modeTegra   = "tegra"
	byEnv       = "env"
	byMounts    = "mounts"
	byUUID      = "uuid"
	byIndex     = "index"
)

const (
	defaultHook = "/usr/bin/nvidia-cdi-hook"
)

// New checks settings, and that the driver root exists. The error is an
// [sdk.FieldErrors] whose paths begin with at, which may be empty. host has the paths
// of the host's trees; devfs must end in /dev.
func New(at string, s Settings, host sdk.HostPaths, log *slog.Logger) (*Maker, error) {
	var errs sdk.FieldErrors
	m := &Maker{log: log, settings: s, procfs: host.Procfs}
	m.settings.Mode = cmp.Or(s.Mode, modeCDI)
	m.settings.VisibleDevices = cmp.Or(s.VisibleDevices, byEnv)
	m.settings.DeviceIDs = cmp.Or(s.DeviceIDs, byUUID)
	if m.settings.Mode != modeRuntime {
		if m.settings.VisibleDevices = s.VisibleDevices; s.VisibleDevices == "" && s.DeviceIDs != "" {
			errs.Add(field(at, "deviceIDs"), "has no effect without visibleDevices in this mode")
		}
		if s.OmitDeviceNodes {
			errs.Add(field(at, "omitDeviceNodes"), "is for the mode runtime only: with CDI nothing else adds the nodes")
		}
	}
	m.settings.Hook = cmp.Or(s.Hook, defaultHook)
	m.root.host = cmp.Or(s.DriverRoot, "/")
	m.root.here = cmp.Or(s.DriverRootMount, m.root.host)
	if s.DevRoot == "" && s.DevRootMount != "" {
		errs.Add(field(at, "devRootMount"), "requires devRoot")
	}
	if s.DevRoot != "" {
		m.devRoot = &place{host: s.DevRoot, here: cmp.Or(s.DevRootMount, s.DevRoot)}
	}
	if len(errs) == 0 {
		checkRoot(at, "driverRoot", s.DriverRootMount, m.root, &errs)
		if m.devRoot != nil {
			checkRoot(at, "devRoot", s.DevRootMount, *m.devRoot, &errs)
		}
	}
	if filepath.Base(host.Devfs) != "dev" {
		errs.Add("", "the host path of devfs is %q: its last part must be dev", host.Devfs)
	}
	m.devfs = place{here: filepath.Dir(host.Devfs), host: "/"}
	return m, errs.Err()
}

// checkRoot requires that the directory in the setting name exists, or, if mount is set, the
// one in the setting nameMount.
func checkRoot(at, name, mount string, root place, errs *sdk.FieldErrors) {
	if mount != "" {
		name += "Mount"
	}
	if info, err := os.Stat(root.here); err != nil {
		errs.Add(field(at, name), "%s; it must be a directory that this process sees", err)
	} else if !info.IsDir() {
		errs.Add(field(at, name), "%q is no directory", root.here)
	}
}

package edits

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Settings say how containers get devices. The zero value is for a driver that
// is installed on the host itself.
type Settings struct {
	// Mode is "cdi" (default) or "runtime".
	Mode string `json:"mode"`
	// DriverRoot is where the driver is installed, as a path on the host: "/"
	// (default), or such as /run/nvidia/driver for a driver in a container.
	DriverRoot string `json:"driverRoot"`
	// DriverRootMount is where this process sees DriverRoot; default the same.
	DriverRootMount string `json:"driverRootMount"`
	// Hook is nvidia-cdi-hook on the host; default /usr/bin/nvidia-cdi-hook.
	Hook string `json:"hook"`
	// DisabledHooks are names of hooks of nvidia-cdi-hook to leave out, "all" for
	// all of them.
	DisabledHooks []string `json:"disabledHooks"`
	// VisibleDevices is how the NVIDIA runtime is told of devices in the mode
	// "runtime": "env" (default), or "mounts", for containers with devices of more
	// than one resource.
	VisibleDevices string `json:"visibleDevices"`
	// GDS, MOFED and GDRCopy add the nodes of GPUDirect Storage, of InfiniBand and
	// of GDRCopy.
	GDS     bool `json:"gds"`
	MOFED   bool `json:"mofed"`
	GDRCopy bool `json:"gdrcopy"`
	// IMEX adds channels to share memory between nodes.
	IMEX IMEX `json:"imex"`
}

// IMEX says which channels a container gets.
type IMEX struct {
	// Channels are their numbers, up to 2^20-1; at most 64.
	Channels []uint32 `json:"channels"`
	// Required makes a missing channel a fault of every device.
	Required bool `json:"required"`
}

// The modes, and the ways to tell the NVIDIA runtime.
const (
	modeCDI     = "cdi"
	modeRuntime = "runtime"
	byEnv       = "env"
	byMounts    = "mounts"
)

const (
	defaultHook   = "/usr/bin/nvidia-cdi-hook"
	maxChannel    = 1<<20 - 1
	maxChannels   = 64
	maxHookOption = 64
)

// New checks settings. The error is an [sdk.FieldErrors] whose paths begin with
// at, which may be empty; among others if the driver root does not exist. Host
// says where the host's trees are; devfs must end in /dev.
func New(at string, s Settings, host sdk.HostPaths, log *slog.Logger) (*Maker, error) {
	var errs sdk.FieldErrors
	choice := func(name, value, first, second string) string {
		switch value {
		case "":
			return first
		case first, second:
		default:
			errs.Add(field(at, name), "%q is none: %s or %s", value, first, second)
		}
		return value
	}
	path := func(name, value, usual string) string {
		if value == "" {
			return usual
		}
		if !filepath.IsAbs(value) || filepath.Clean(value) != value {
			errs.Add(field(at, name), "%q must be an absolute path without . or ..", value)
		}
		return value
	}
	m := &Maker{log: log, settings: s, procfs: host.Procfs}
	m.settings.Mode = choice("mode", s.Mode, modeCDI, modeRuntime)
	m.settings.VisibleDevices = choice("visibleDevices", s.VisibleDevices, byEnv, byMounts)
	if s.VisibleDevices != "" && m.settings.Mode == modeCDI {
		errs.Add(field(at, "visibleDevices"), "is for the mode runtime only")
	}
	m.settings.Hook = path("hook", s.Hook, defaultHook)
	m.root.host = path("driverRoot", s.DriverRoot, "/")
	m.root.here = path("driverRootMount", s.DriverRootMount, m.root.host)
	if len(errs) == 0 {
		checkRoot(at, s, m.root, &errs)
	}
	for i, name := range s.DisabledHooks {
		if name == "" || len(name) > maxHookOption || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") != "" {
			errs.Add(field(at, index("disabledHooks", i)), "%q is no hook, such as enable-cuda-compat", name)
		}
	}
	checkChannels(field(at, "imex.channels"), s.IMEX.Channels, &errs)
	if filepath.Base(host.Devfs) != "dev" {
		errs.Add("", "the host path of devfs is %q: its last part must be dev", host.Devfs)
	}
	m.devfs = place{here: filepath.Dir(host.Devfs), host: "/"}
	return m, errs.Err()
}

func checkRoot(at string, s Settings, root place, errs *sdk.FieldErrors) {
	name := "driverRoot"
	if s.DriverRootMount != "" {
		name = "driverRootMount"
	}
	if info, err := os.Stat(root.here); err != nil {
		errs.Add(field(at, name), "%s; it must be the root of the driver's files, and this process must see it", err)
	} else if !info.IsDir() {
		errs.Add(field(at, name), "%q is no directory", root.here)
	}
}

func checkChannels(at string, channels []uint32, errs *sdk.FieldErrors) {
	if len(channels) > maxChannels {
		errs.Add(at, "%d channels are too many: at most %d", len(channels), maxChannels)
	}
	for i, c := range channels {
		if c > maxChannel {
			errs.Add(index(at, i), "%d is no channel: 0 to %d", c, maxChannel)
		}
		if slices.Contains(channels[:i], c) {
			errs.Add(index(at, i), "channel %d is given twice", c)
		}
	}
}

package edits

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"

	"github.com/accelmux/accelmux/backends/sdk"
)

// The variables and paths that tell the NVIDIA runtime what a container
// gets: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/.
const (
	envDevices = "NVIDIA_VISIBLE_DEVICES"
	envIMEX    = "NVIDIA_IMEX_CHANNELS"
	mountsDir  = "/var/run/nvidia-container-devices"
	// envNodes explains why there are no device nodes. Only this backend uses it: a CDI
	// definition needs an edit other than joined variables.
	envNodes = "NVIDIA_DEVICE_NODES"
)

// visible adds a device to NVIDIA_VISIBLE_DEVICES, if the settings require it, by its UUID or
// index. The core joins the variable's values for the devices of one resource; mounts also work
// for devices of several resources.
func (w *work) visible(uuid, index string) *sdk.Edits {
	e, id := &sdk.Edits{}, uuid
	if w.settings.DeviceIDs == byIndex {
		id = index
	}
	switch w.settings.VisibleDevices {
	case byEnv:
		sdk.JoinedEnv(e, envDevices, id, ",")
	case byMounts:
		e.Env = map[string]string{envDevices: mountsDir}
		e.Mounts = []*sdk.Mount{{HostPath: "/dev/null", ContainerPath: mountsDir + "/" + id}}
	}
	return e
}

// option is an addition to the devices that the settings can switch on.
type option struct {
	name string
	on   bool
	mode nvcdi.Mode
	env  string // the variable for the NVIDIA runtime
	want string // the paths of its nodes
}

// options returns the edits of all options in the settings. An option that the node does
// not have is a problem, not a fault: programs that do not use it run.
func (w *work) options() ([]*sdk.Edits, error) {
	var out []*sdk.Edits
	for _, o := range []option{
		{"gds", w.settings.GDS, nvcdi.ModeGds, "NVIDIA_GDS", "/dev/nvidia-fs*"},
		{"mofed", w.settings.MOFED, nvcdi.ModeMofed, "NVIDIA_MOFED", "/dev/infiniband/uverbs*"},
		{"gdrcopy", w.settings.GDRCopy, nvcdi.ModeGdrcopy, "NVIDIA_GDRCOPY", "/dev/gdrdrv"},
	} {
		if !o.on {
			continue
		}
		e, err := w.option(o)
		if err != nil {
			w.problem(fmt.Sprintf("option %s: %s; devices come without it", o.name, err))
			continue
		}
		out = append(out, e)
	}
	channels, err := w.channels()
	return append(out, channels...), err
}

func (w *work) option(o option) (e *sdk.Edits, err error) {
	err = guard(func() error {
		list, err := w.devices(o.mode, "all")
		if err != nil {
			return err
		}
		e = merge(list...)
		withoutUdevControl(e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(e.GetDeviceNodes()) == 0 {
		return nil, fmt.Errorf("this node has no %s", o.want)
	}
	if w.settings.Mode == modeRuntime {
		e.Env[o.env] = "enabled"
	}
	return e, nil
}

// withoutUdevControl has a container mount udev's database alone instead of all of /run/udev. NVIDIA's library for GPUDirect
// Storage reads properties of disks, which libudev has in /run/udev/data (device_read_db in src/libsystemd/sd-device of
// systemd). Beside it is udevd's control socket, which takes commands of root, also of a container's; libudev only asks
// whether it exists, before it listens to events (device_monitor_new_full in sd-device/device-monitor.c).
func withoutUdevControl(e *sdk.Edits) {
	const udev, data = "/run/udev", "/data"
	for _, m := range e.GetMounts() {
		if m.GetContainerPath() == udev {
			m.HostPath, m.ContainerPath = m.GetHostPath()+data, udev+data
		}
	}
}

// channels returns the nodes of the IMEX channels in the settings.
func (w *work) channels() ([]*sdk.Edits, error) {
	e := &sdk.Edits{}
	var numbers []string
	for _, c := range w.settings.IMEX.Channels {
		number := strconv.FormatUint(uint64(c), 10)
		d, err := w.nodes.find("/dev/nvidia-caps-imex-channels/channel" + number)
		switch {
		case err == nil:
			e.DeviceNodes = append(e.DeviceNodes, d)
			numbers = append(numbers, number)
		case w.settings.IMEX.Required:
			return nil, fmt.Errorf("IMEX channel %s is required: %w", number, err)
		default:
			w.problem(fmt.Sprintf("IMEX channel %s: %s; devices come without it", number, err))
		}
	}
	if len(numbers) == 0 {
		return nil, nil
	}
	if w.settings.Mode == modeRuntime {
		e.Env = map[string]string{envIMEX: strings.Join(numbers, ",")}
	}
	return []*sdk.Edits{e}, nil
}

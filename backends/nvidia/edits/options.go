package edits

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"

	"github.com/accelmux/accelmux/backends/sdk"
)

// The variables and paths by which the NVIDIA runtime is told what a container
// gets: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/.
const (
	envDevices = "NVIDIA_VISIBLE_DEVICES"
	envIMEX    = "NVIDIA_IMEX_CHANNELS"
	mountsDir  = "/var/run/nvidia-container-devices"
)

// visible tells the NVIDIA runtime of a device. The core joins the variable's
// values of the devices of one resource; mounts add up over several resources, too.
func (w *work) visible(uuid string) *sdk.Edits {
	if w.settings.VisibleDevices == byEnv {
		e := &sdk.Edits{}
		sdk.JoinedEnv(e, envDevices, uuid, ",")
		return e
	}
	return &sdk.Edits{
		Env:    map[string]string{envDevices: mountsDir},
		Mounts: []*sdk.Mount{{HostPath: "/dev/null", ContainerPath: mountsDir + "/" + uuid}},
	}
}

// option is something that a container gets besides its devices.
type option struct {
	name string
	on   bool
	mode nvcdi.Mode
	env  string // what the NVIDIA runtime knows it by
	want string // which nodes it is
}

// options are what every device comes with by the settings. One that the node
// does not have is a problem, not a fault: programs that do without it run.
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

// channels are the IMEX channels that there are.
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

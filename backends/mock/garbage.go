package mock

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// litter is what a broken backend may report, by name. Each adds bad devices to the good ones,
// so that a test can check that the good ones stay.
var litter = map[string]func([]*sdk.Device) []*sdk.Device{
	"duplicate-ids": func(d []*sdk.Device) []*sdk.Device {
		if len(d) == 0 {
			d = append(d, bad("duplicate"))
		}
		return append(d, proto.CloneOf(d[0]))
	},
	"control-characters": func(d []*sdk.Device) []*sdk.Device {
		return append(d, bad("mock\x1b[31m\nred\x00"))
	},
	"bad-ids": func(d []*sdk.Device) []*sdk.Device {
		return append(d, bad(""), bad("replica::1"), bad("../../etc/passwd"), bad(strings.Repeat("x", 64)), bad("-dash"))
	},
	"forbidden-paths": func(d []*sdk.Device) []*sdk.Device {
		for i, p := range []string{"/dev/mem", "/dev/sda", "/dev/../etc/shadow", "dev/relative", "/etc/shadow"} {
			b := bad(fmt.Sprintf("bad-path-%d", i))
			b.Edits = sdk.Nodes(p)
			d = append(d, b)
		}
		b := bad("bad-path-mount")
		b.Edits = &sdk.Edits{Mounts: []*sdk.Mount{{HostPath: "/", ContainerPath: "/host", Writable: true}}}
		return append(d, b)
	},
	"too-many-devices": func(d []*sdk.Device) []*sdk.Device {
		for i := range maxDevices + 1 {
			d = append(d, bad(fmt.Sprintf("too-many-%d", i)))
		}
		return d
	},
	"oversize": func(d []*sdk.Device) []*sdk.Device {
		b := bad("oversize")
		b.Edits.Env = map[string]string{"HUGE": strings.Repeat("x", backendplugin.MaxMessageSize)}
		return append(d, b)
	},
}

// usualLitter are the kinds if the scenario names none: the others spoil the report as a whole.
var usualLitter = []string{"bad-ids", "control-characters", "duplicate-ids", "forbidden-paths"}

func (g *garbage) check(errs *sdk.FieldErrors) {
	for i, k := range g.Kinds {
		if litter[k] == nil {
			errs.Add(fmt.Sprintf("garbage.kinds[%d]", i), "%q is no kind of garbage: %s", k, strings.Join(slices.Sorted(maps.Keys(litter)), ", "))
		}
	}
}

// spoil adds the garbage.
func (g *garbage) spoil(devices []*sdk.Device) []*sdk.Device {
	kinds := g.Kinds
	if len(kinds) == 0 {
		kinds = usualLitter
	}
	for _, k := range kinds {
		devices = litter[k](devices)
	}
	return devices
}

// bad returns a device that would be good under another ID.
func bad(id string) *sdk.Device {
	return &sdk.Device{
		Id: id, Class: defaultClass, Health: sdk.Healthy(), Edits: sdk.Nodes("/dev/null"),
		Attributes: map[string]*sdk.Attribute{"model": sdk.String("Garbage")},
	}
}

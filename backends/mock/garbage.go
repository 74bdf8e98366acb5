package mock

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

// litter is what a hostile or broken backend may report, by name. Each adds bad
// devices to the good ones, so that a test sees that the good ones stay.
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
	"unknown-class": func(d []*sdk.Device) []*sdk.Device {
		b := bad("bad-class")
		b.Class = "toaster"
		return append(d, b)
	},
	"forbidden-paths": func(d []*sdk.Device) []*sdk.Device {
		var out []*sdk.Device
		for i, p := range []string{"/dev/mem", "/dev/sda", "/dev/../etc/shadow", "dev/relative", "/etc/shadow"} {
			b := bad(fmt.Sprintf("bad-path-%d", i))
			b.Edits = sdk.Nodes(p)
			out = append(out, b)
		}
		b := bad("bad-path-mount")
		b.Edits = &sdk.Edits{Mounts: []*sdk.Mount{{HostPath: "/", ContainerPath: "/host", Writable: true}}}
		return append(append(d, out...), b)
	},
	"forbidden-env": func(d []*sdk.Device) []*sdk.Device {
		b, c := bad("bad-env-preload"), bad("bad-env-name")
		b.Edits.Env = map[string]string{"LD_PRELOAD": "/tmp/evil.so"}
		c.Edits.Env = map[string]string{"A=B\nC": "x"}
		return append(d, b, c)
	},
	"bad-health": func(d []*sdk.Device) []*sdk.Device {
		b, c := bad("bad-health-code"), bad("bad-health-message")
		b.Health = sdk.Fault("", 0, "")
		c.Health = sdk.Fault("code with spaces", 99, "")
		c.Health.Message = strings.Repeat("m", 100_000)
		return append(d, b, c)
	},
	"bad-attributes": func(d []*sdk.Device) []*sdk.Device {
		b, c := bad("bad-attribute-names"), bad("bad-attribute-count")
		b.Attributes = map[string]*sdk.Attribute{"not a name": sdk.Int(1), "empty": {}, "version": sdk.Version("one")}
		for i := range 1000 {
			c.Attributes[fmt.Sprintf("a%d", i)] = sdk.Int(int64(i))
		}
		return append(d, b, c)
	},
	"bad-links": func(d []*sdk.Device) []*sdk.Device {
		b := bad("bad-links")
		b.Links = []*sdk.Link{{PeerId: "nowhere"}, {PeerId: "bad-links"}, {PeerId: "\x00", Kind: 999}}
		return append(d, b)
	},
	"no-edits": func(d []*sdk.Device) []*sdk.Device {
		b := bad("no-edits")
		b.Edits = nil
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

// heavy kinds spoil the report as a whole, so they come only by name.
var heavy = map[string]bool{"too-many-devices": true, "oversize": true}

// bad is a device that would be good under another ID.
func bad(id string) *sdk.Device {
	return &sdk.Device{
		Id: id, Class: defaultClass, Health: sdk.Healthy(), Edits: sdk.Nodes("/dev/null"),
		Attributes: map[string]*sdk.Attribute{"model": sdk.String("Garbage")},
	}
}

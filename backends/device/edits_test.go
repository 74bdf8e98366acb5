package device

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/accelmux/accelmux/test/devicetree"
)

// A container gets what the description says; what it cannot get is the device's fault, with what to
// change.
func TestEdits(t *testing.T) {
	t.Parallel()
	const second = `
sys/class/acme/acme1/uevent: MAJOR=240\nMINOR=1\nDEVNAME=acme1
dev/acme1: c 240:1
`
	const port = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/"
	const usb = port + "idVendor: 1a86\n" + port + "idProduct: 7523\n" + port + "1-2:1.0/x/y: z\nsys/class/acme/acme1 -> ../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/x\n"
	for name, c := range map[string]struct{ lines, fields, want string }{
		"mounts": {"", `"edits": {"mounts": [{"path": "/opt/{name}", "containerPath": "/acme", "writable": true}, {"path": "/usr/lib/acme", "optional": true}]}`,
			`"mounts": [{"hostPath": "/opt/acme0", "containerPath": "/acme", "writable": true}, {"hostPath": "/usr/lib/acme", "containerPath": "/usr/lib/acme", "optional": true}]`},
		"a mount that is nowhere":   {"", `"edits": {"mounts": [{"path": "/opt/{self.link('driver')}"}]}`, "no such file"},
		"a mount elsewhere":         {"", `"edits": {"mounts": [{"path": "{name}"}]}`, `the mount of "acme0" to "acme0" must have absolute paths`},
		"mounts at one place":       {second, `"mergeBy": "a", "edits": {"mounts": [{"path": "/opt/{name}", "containerPath": "/acme"}]}`, "/opt/acme1 and /opt/acme0 would both be mounted at /acme"},
		"one mount of two objects":  {second, `"mergeBy": "a", "edits": {"mounts": [{"path": "/opt/acme"}]}`, `"mounts": [{"hostPath": "/opt/acme", "containerPath": "/opt/acme"}]`},
		"nodes at one place":        {second, `"mergeBy": "a", "edits": {"nodes": [{"path": "{node}", "containerPath": "/dev/npu"}]}`, "/dev/acme1 and /dev/acme0 would both be /dev/npu"},
		"a list at one place":       {second, `"edits": {"nodes": [{"path": "/dev/{['acme0', 'acme1']}", "containerPath": "/dev/npu"}]}`, "2 device nodes would have the path /dev/npu"},
		"an empty list":             {"", `"edits": {"nodes": [{"path": "/dev/{self.names('none*')}"}]}`, "the kernel has no device node for /dev/{self.names('none*')}"},
		"an empty optional list":    {"", `"edits": {"nodes": [{"path": "/dev/{self.names('none*')}", "optional": true}]}`, "none of its device nodes is there"},
		"a function without driver": {"- sys/class/acme/acme0/uevent", `"edits": {"nodes": [{"path": "/dev/{self.names('none*')}", "optional": true}]}`, "none of its device nodes is there: no driver is bound to 0000:01:00.0; load its module, or bind it"},
		"a function with driver": {"sys/devices/pci0000:00/0000:01:00.0/driver -> ../../../bus/pci/drivers/acme\n- sys/class/acme/acme0/uevent", `"edits": {"nodes": [{"path": "/dev/{self.names('none*')}", "optional": true}]}`,
			"none of its device nodes is there: is its driver loaded?"},
		"a USB device without driver": {usb, `"edits": {"nodes": [{"path": "/dev/{self.names('none*')}", "optional": true}]}`, "none of its device nodes is there: no driver is bound to the USB device 1-2; load its module"},
		"a node elsewhere":            {"", `"edits": {"nodes": [{"path": "{'/etc/' + name}"}]}`, `the device node "/etc/acme0" is not below /dev`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			devices, problems := list(t, devicetree.New(t, acme+c.lines).Host(), acmeKind(c.fields))
			var got string
			for _, d := range devices {
				text, err := protojson.Marshal(d)
				if err != nil {
					t.Fatal(err)
				}
				got += d.GetHealth().GetMessage() + string(text)
			}
			if flat := strings.NewReplacer(" ", "", "\n", ""); len(problems) > 0 || !strings.Contains(flat.Replace(got), flat.Replace(c.want)) {
				t.Errorf("%s, %q, want %s", got, problems, c.want)
			}
		})
	}
}

// A capacity that is no whole number from 0 on is left out, with a problem; one that a driver lacks
// without. An ID that cannot be is the end of the device.
func TestCapacitiesAndIDs(t *testing.T) {
	t.Parallel()
	for fields, want := range map[string]string{
		`"capacities": {"memory": "self.number('errors') * 1024", "none": "self.number('none')"}`: "memory:5120",
		`"capacities": {"memory": "self.number('errors') - 6"}`:                                   "the capacity memory is left out: -1 is negative",
		`"capacities": {"memory": "self.number('status')"}`:                                       "the capacity memory is left out: self.number('status'): read ",
		`"attributes": {"model": "self.text('beat/x')"}`:                                          "the attribute model is left out: ",
		`"id": "{self.names('none*').size() > 0 ? name : '--'}"`:                                  "its ID would be empty",
		`"id": "{name}-` + strings.Repeat("x", 58) + `"`:                                          "acme0-" + strings.Repeat("x", 48) + "-edf8b429",
		`"id": "{self.text('none')}"`:                                                             "its ID cannot be read",
		`"id": "a::{name}/b"`:                                                                     "a:-:acme0-b",
	} {
		devices, got := list(t, devicetree.New(t, acme).Host(), acmeKind(fields))
		for _, d := range devices {
			got = append(got, d.GetId())
			for name, n := range d.GetCapacities() {
				got = append(got, fmt.Sprintf("%s:%d", name, n))
			}
		}
		if !slices.ContainsFunc(got, func(text string) bool { return strings.Contains(text, want) }) {
			t.Errorf("%s: %q, want %s", fields, got, want)
		}
	}
}

// A directory is one device with all nodes below it, and so is one that edits name, as for container runtimes: without
// links, block devices and other files.
func TestDirectories(t *testing.T) {
	t.Parallel()
	const tree = `
dev/rig/a: c 240:0
dev/rig/more/b: c 240:1
dev/rig/by-id/a -> ../a
dev/rig/c -> a
dev/rig/loop: b 7:0
dev/rig/shm/x: c 240:2
dev/rig/text: nothing
dev/none/by-id/a -> ../../rig/a
sys/dev/char/240:1 -> ../../devices/rig/b
sys/devices/rig/b/dev: 240:1
`
	for name, c := range map[string]struct{ match, fields, want string }{
		"a path":           {"/dev/rig", `"count": 2`, `"rig /dev/rig/a /dev/rig/more/b"`},
		"a pattern":        {"/dev/[r]ig", `"count": 2`, `"rig /dev/rig/a /dev/rig/more/b"`},
		"below a path":     {"/dev/rig/mor[e]", `"count": 2`, `"rig-more /dev/rig/more/b"`},
		"elsewhere":        {"/dev/rig", `"edits": {"nodes": [{"path": "{node}", "containerPath": "/dev/x", "permissions": "r"}]}`, `"rig /dev/rig/a=/dev/x/a /dev/rig/more/b=/dev/x/more/b"`},
		"in edits":         {"/dev/rig/more/b", `"edits": {"nodes": [{"path": "{node}"}, {"path": "/dev/rig"}]}`, `"rig-b /dev/rig/more/b /dev/rig/a"`},
		"without nodes":    {"/dev/rig/more/b", `"edits": {"nodes": [{"path": "/dev/none"}]}`, `"rig-b the directory /dev/none has no device nodes"`},
		"optional":         {"/dev/rig/more/b", `"edits": {"nodes": [{"path": "{node}"}, {"path": "/dev/none", "optional": true}]}`, `"rig-b /dev/rig/more/b"`},
		"of links":         {"/dev/none", `"count": 2`, "/dev/none is a directory without device nodes: links in it are not followed"},
		"a pattern, links": {"/dev/non[e]", `"count": 2`, `[]`},
	} {
		settings := `{"edits": {"groups": "none"}, "kinds": [{"name": "rig", "match": {"paths": ["` + c.match + `"]}, ` + c.fields + `}]}`
		devices, all := list(t, devicetree.New(t, tree).Host(), settings)
		for _, d := range devices {
			line := d.GetId()
			for _, n := range d.GetEdits().GetDeviceNodes() {
				line += " " + n.GetPath()
				if n.GetHostPath() != "" {
					line = strings.TrimSuffix(line, n.GetPath()) + n.GetHostPath() + "=" + n.GetPath()
				}
			}
			if d.GetHealth().GetMessage() != "" {
				line += " " + d.GetHealth().GetMessage()
			}
			all = append(all, line)
		}
		if got := fmt.Sprintf("%q", all); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

package description_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/sdk"
)

// whole has all fields of a description.
const whole = `{
	"name": "acme-npu",
	"match": {"pci": {"vendors": ["1234"]}, "where": "self.link('driver') == 'acme'"},
	"id": "acme-{pci.address}", "mergeBy": "{iommu.group}",
	"attributes": {"model": "self.text('model')", "firmware": "version(self.text('fw'))", "acme.example/links": "self.names('link*')"},
	"capacities": {"memory": "self.number('mem') * 1024"},
	"count": 4,
	"edits": {
		"nodes": [{"path": "/dev/acme/{self.names('acme/*')}"}, {"path": "{node}", "containerPath": "/dev/acme", "permissions": "rw", "optional": true}],
		"mounts": [{"path": "/usr/lib/acme", "containerPath": "/acme", "writable": true, "optional": true}],
		"env": {"ACME": "{{{name}}}"}, "joinedEnv": {"ACME_DEVICES": {"value": "{pci.address}", "separator": ";"}}
	},
	"health": [
		{"fault": "dead", "when": "self.text('status') != 'ALIVE'", "message": "reset {name}", "recovery": "reset", "reach": "holders"},
		{"fault": "lost", "present": "lost"}, {"fault": "gone", "absent": "device/there"}, {"fault": "ecc", "grows": "errors"},
		{"fault": "stuck", "heartbeat": "/sys/class/x/{name}/beat", "within": "2m"}
	],
	"reset": {"write": {"file": "reset", "value": "1"}},
	"prepare": [{"bind": {"driver": "vfio-pci"}}, {"write": {"file": "clear", "value": "{name}"}}],
	"telemetry": {"hwmon": true, "gauges": [{"name": "clock_hertz", "file": "clock", "scale": 1e6}], "counters": [{"name": "errors_total", "file": "errors"}]}
}`

func compile(text string) (*description.Compiled, sdk.FieldErrors) {
	var k description.Kind
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		return nil, sdk.FieldErrors{{Message: err.Error()}}
	}
	var errs sdk.FieldErrors
	c := description.Compile("k", k, &errs)
	description.CheckNames("kinds", []string{k.Name}, &errs)
	return c, errs
}

// A description with all fields is accepted, and keeps them.
func TestCompile(t *testing.T) {
	t.Parallel()
	c, errs := compile(whole)
	if errs != nil {
		t.Fatal(errs)
	}
	if got := c.Nodes[0].Path.Pattern(); got != "/dev/acme/*" {
		t.Errorf("pattern %q", got)
	}
	if len(c.Health) != 5 || c.Health[0].Recovery != sdk.RecoveryReset || c.JoinedEnv["ACME_DEVICES"].Separator != ";" || c.Gauges[0].Scale != 1e6 {
		t.Errorf("%+v", c)
	}
}

// Two wrong descriptions for each rule are refused, with the field and what would be right.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ with, want string }{
		{`"name": "Acme"`, `kinds[0].name: "Acme" must be a DNS label`},
		{`"name": "1acme"`, `kinds[0].name: "1acme" must be a DNS label`},
		{`"match": {"class": "x", "where": "self.text('a')"}`, "k.match.where: \"self.text('a')\" is of the type string, want true or false"},
		{`"match": {"class": "x", "where": "pci.adress == ''"}`, "k.match.where: \"pci.adress == ''\", character 4: there is no field adress"},
		{`"match": {"class": "x", "where": "selv.has('a')"}`, "there is no name selv; there are name, node, kind, self"},
		{`"match": {"class": "x", "where": " "}`, "k.match.where: it is empty"},
		{`"match": {"class": "x", "where": "name == '` + strings.Repeat("x", 2048) + `'"}`, "k.match.where: it has 2058 bytes, and may have 2048"},
		{`"id": "{'` + strings.Repeat("x", 2047) + `'}"`, "k.id: it has 2049 bytes, and may have 2048"},
		{`"id": "{pci.address"`, "k.id: \"{pci.address\" has a { without }"},
		{`"id": "pci.address}"`, "k.id: \"pci.address}\" has a } without {"},
		{`"id": "{self}"`, "k.id: \"self\" is of the type object, want a string or a whole number"},
		{`"mergeBy": "{iommu}"`, "k.mergeBy: \"iommu\" is of the type iommu"},
		{`"attributes": {"a": "self"}`, "k.attributes.a: \"self\" is of the type object"},
		{`"attributes": {"a": "1.5"}`, "k.attributes.a: \"1.5\" is of the type double, want a string, a whole number"},
		{`"attributes": {"a b": "name"}`, `k.attributes["a b"]: the name must be a C identifier`},
		{`"attributes": {"accelmux.io/x": "name"}`, `k.attributes["accelmux.io/x"]: the name must be`},
		{`"attributes": {"kind": "name"}`, "k.attributes.kind: it is always the name of the kind"},
		{`"attributes": {"kind": "'x'"}`, "k.attributes.kind: it is always the name of the kind"},
		{`"attributes": {"a": ""}`, "k.attributes.a: it is empty"},
		{`"capacities": {"memory": "self.text('mem')"}`, "k.capacities.memory: \"self.text('mem')\" is of the type string, want a whole number"},
		{`"capacities": {"memory": "1.0"}`, "want a whole number"},
		{`"attributes": {"x": "name"}, "capacities": {"x": "1"}`, "k.capacities.x: there is an attribute of this name"},
		{`"attributes": {"a/x": "name"}, "capacities": {"a/x": "1"}`, `k.capacities["a/x"]: there is an attribute of this name`},
		{`"capacities": {"kind": "1"}`, "k.capacities.kind: there is an attribute of this name"},
		{`"capacities": {"a b": "1"}`, `k.capacities["a b"]: the name must be`},
		{`"count": 2, "capacities": {"shares": "2"}`, "k.capacities.shares: it is the count"},
		{`"count": 9, "capacities": {"shares": "1"}`, "k.capacities.shares: it is the count"},
		{`"match": {"class": "net"}, "count": 2, "edits": {"netDevices": [{"host": "{name}"}]}`, "k.count: a network interface is in one container at a time"},
		{`"match": {"class": "net"}, "count": 1, "edits": {"nodes": [{"path": "/dev/x"}], "netDevices": [{"host": "can0"}]}`, "k.count: a network interface is in one"},
		{`"edits": {"nodes": [{"path": "/etc/x"}]}`, `k.edits.nodes[0].path: "/etc/x" must be an absolute path below /dev/`},
		{`"edits": {"nodes": [{"path": "{name}/x"}]}`, "must be an absolute path below /dev/"},
		{`"edits": {"nodes": [{"path": "/dev/{name}/../x"}]}`, "without . or .."},
		{`"edits": {"nodes": [{"path": "/dev/x", "containerPath": "x"}]}`, `k.edits.nodes[0].containerPath: "x" must be an absolute path`},
		{`"edits": {"nodes": [{"path": "/dev/x", "containerPath": "/"}]}`, "k.edits.nodes[0].containerPath"},
		{`"edits": {"mounts": [{"path": "lib"}]}`, `k.edits.mounts[0].path: "lib" must be an absolute path`},
		{`"edits": {"mounts": [{"path": "/a/", "containerPath": "/b"}]}`, "without . or .."},
		{`"edits": {"netDevices": [{"host": "{name}"}]}`, "k.edits.netDevices: they are for a kind that matches network interfaces"},
		{`"match": {"usb": {}}, "edits": {"netDevices": [{"host": "can0"}]}`, "k.edits.netDevices: they are for a kind"},
		{`"match": {"class": "net"}, "edits": {"netDevices": [{"host": "{name}/x"}]}`, `k.edits.netDevices[0].host: "{name}/x" must be the name of a network interface`},
		{`"match": {"class": "net"}, "edits": {"netDevices": [{"host": "{name}", "name": "sixteen-letters-"}]}`, "k.edits.netDevices[0].name: \"sixteen-letters-\" must be the name"},
		{`"edits": {"env": {"1A": "x"}}`, `k.edits.env["1A"]: "1A" is no name of a variable`},
		{`"deviceInfo": {"resource": "sriov", "fields": {"pci-address": "name"}}`, `k.deviceInfo.resource: "sriov" must be the name of a resource`},
		{`"deviceInfo": {"resource": "a/../b", "fields": {"pci-address": "name"}}`, `k.deviceInfo.resource: "a/../b" must be the name of a resource`},
		{`"deviceInfo": {"resource": "a.b/c"}`, `k.deviceInfo.fields: it is missing`},
		{`"deviceInfo": {"type": "../x"}`, `k.deviceInfo.type: "../x" is no type`},
		{`"deviceInfo": {"fields": {"PCI": "name"}}`, `"PCI" is no name of the specification`},
		{`"deviceInfo": {"fields": {"path": "true"}}`, `k.deviceInfo.fields.path: `},
		{`"edits": {"env": {"A B": "x"}}`, "is no name of a variable"},
		{`"edits": {"joinedEnv": {"": {"value": "x"}}}`, `k.edits.joinedEnv[""]: "" is no name of a variable`},
		{`"edits": {"env": {"A": "{pci.adress}"}}`, "k.edits.env.A: \"pci.adress\", character 4: there is no field"},
		{`"edits": {"joinedEnv": {"A": {"value": "x", "separator": "\n"}}}`, "k.edits.joinedEnv.A.separator"},
		{`"edits": {"env": {"A": "x"}, "joinedEnv": {"A": {"value": "x"}}}`, "k.edits.joinedEnv.A: it is in env, too"},
		{`"edits": {"env": {"B": "y"}, "joinedEnv": {"B": {"value": "{name}"}}}`, "k.edits.joinedEnv.B: it is in env, too"},
		{`"health": [{"fault": "a", "present": "x"}, {"fault": "a", "absent": "x"}]`, `k.health[1].fault: "a" is there twice`},
		{`"health": [{"fault": "b", "present": "x"}, {"fault": "a", "present": "x"}, {"fault": "b", "present": "y"}]`, `k.health[2].fault: "b" is there twice`},
		{`"health": [{"fault": "a", "present": "x", "message": "{nam}"}]`, `k.health[0].message: "nam", character 1: there is no name nam`},
		{`"health": [{"fault": "a", "present": "x", "message": "}"}]`, `k.health[0].message: "}" has a } without {`},
		{`"health": [{"fault": "a"}]`, "k.health[0]: give one of absent, event, grows, heartbeat, present, when"},
		{`"health": [{"fault": "a", "message": "x"}]`, "k.health[0]: give one of"},
		{`"health": [{"fault": "a", "present": "x", "absent": "y"}]`, "k.health[0]: it has absent and present"},
		{`"health": [{"fault": "a", "when": "true", "grows": "y"}]`, "k.health[0]: it has grows and when"},
		{`"health": [{"fault": "a", "grows": "../x"}]`, `k.health[0].grows: "../x" must be a path below the object`},
		{`"health": [{"fault": "a", "present": "/proc/x"}]`, `k.health[0].present: "/proc/x" must be a path below the object`},
		{`"health": [{"fault": "a", "when": "1"}]`, "k.health[0].when: \"1\" is of the type int, want true or false"},
		{`"health": [{"fault": "a", "when": "self.number('x')"}]`, "want true or false"},
		{`"health": [{"fault": "a", "grows": "x", "within": "1m"}]`, "k.health[0].within: it is for a heartbeat"},
		{`"health": [{"fault": "a", "when": "true", "within": "1m"}]`, "k.health[0].within: it is for a heartbeat"},
		{`"health": [{"fault": "a", "heartbeat": "x", "within": "1ms"}]`, "k.health[0].within: 1ms must be between 1s and 1h"},
		{`"health": [{"fault": "a", "heartbeat": "x", "within": "2h"}]`, "k.health[0].within: 2h0m0s must be between"},
		{`"count": 2, "attributes": {"shares": "1"}`, "k.attributes.shares: it is the count"},
		{`"edits": {"nodes": [{"path": "/dev/a"}, {"path": "/dev/b", "containerPath": "/dev/a"}]}`, `k.edits.nodes[1]: "/dev/a" in the container is that of nodes[0], too`},
		{`"edits": {"nodes": [{"path": "{node}", "containerPath": "/x"}], "mounts": [{"path": "/y", "containerPath": "/x"}]}`, `k.edits.mounts[0]: "/x" in the container is that of nodes[0], too`},
		{`"match": {"class": "net"}, "reset": {"program": ["/x"]}`, "k.reset: a device without nodes is never reset"},
		{`"health": [{"fault": "a", "present": "x", "recovery": "reset"}], "reset": null`, "k.health[0].recovery: the kind has no reset"},
		{`"health": [{"fault": "a", "present": "x"}, {"fault": "b", "event": "WEDGED", "recovery": "reset"}]`, "k.health[1].recovery: the kind has no reset"},
		{`"match": {"pci": {"vendors": ["1234"]}}`, "k.edits: a PCI function has no device node of its own"},
		{`"match": {"class": "net", "names": ["eth*"]}`, "k.edits: a network interface has no device node: give netDevices"},
		{`"match": {"class": "hwmon"}`, "k.edits: give nodes that the members of the class hwmon have"},
		{`"match": {"paths": ["/sys/bus/acme/devices/*"]}`, "k.edits: a directory of /sys does not show its device nodes"},
		{`"match": {"pci": {"vendors": ["1234"]}}, "edits": {"joinedEnv": {"A": {"value": "x"}}}`, "k.edits: a PCI function has no device node"},
		{`"hardware": {"pci": {}, "drivers": ["acme"]}`, "k.hardware.pci: it would select every function"},
		{`"hardware": {"pci": {"vendors": ["12"]}, "drivers": ["acme"]}`, "k.hardware.pci.vendors[0]: "},
		{`"reset": {}`, "k.reset: give one of pci, program, write"},
		{`"reset": {"pci": false}`, "k.reset: give one of pci, program, write"},
		{`"reset": {"pci": true, "program": ["/x"]}`, "k.reset: it has pci and program"},
		{`"reset": {"pci": true, "write": {"file": "x", "value": "1"}}`, "k.reset: it has pci and write"},
		{`"reset": {"program": [""]}`, `k.reset.program[0]: "" must be an absolute path`},
		{`"reset": {"program": ["reset"]}`, `k.reset.program[0]: "reset" must be an absolute path`},
		{`"reset": {"program": ["/usr/bin/{name}"]}`, "without expressions"},
		{`"reset": {"program": ["/usr/bin/x", "{nam}"]}`, "k.reset.program[1]: \"nam\", character 1: there is no name nam"},
		{`"match": {"pci": {"vendors": ["1234"]}}, "edits": {"env": {"A": "x"}}, "reset": {"pci": true}`, "k.reset: a device without nodes is never reset"},
		{`"match": {"class": "net"}, "edits": {"netDevices": [{"host": "{name}"}]}, "reset": {"program": ["/x"]}`, "k.reset: a device without nodes is never reset"},
		{`"match": {"usb": {}}, "reset": {"pci": true}`, "k.reset.pci: it would reset the USB controller"},
		{`"match": {"usb": {"vendors": ["0403"]}}, "edits": {"nodes": [{"path": "{node}"}]}, "reset": {"pci": true}`, "k.reset.pci: it would reset"},
		{`"prepare": [{}]`, "k.prepare[0]: give one of bind, write"},
		{`"prepare": [{"bind": null}]`, "k.prepare[0]: give one of bind, write"},
		{`"prepare": [{"bind": {"driver": "x"}, "write": {"file": "a", "value": "b"}}]`, "k.prepare[0]: it has bind and write"},
		{`"prepare": [{"write": {"file": "/etc/x", "value": "b"}}]`, `k.prepare[0].write.file: "/etc/x" must be a path below the object`},
		{`"prepare": [{"write": {"file": "/sys/kernel/x", "value": "b"}}]`, "must be below the object, or below one of /sys/devices/"},
		{`"prepare": [{"write": {"file": "a/../b", "value": "b"}}]`, "without . or .."},
		{`"telemetry": {"gauges": [{"name": "Temp", "file": "x"}]}`, `k.telemetry.gauges[0].name: "Temp" must be lower-case words`},
		{`"telemetry": {"gauges": [{"name": "temp__celsius", "file": "x"}]}`, "must be lower-case words"},
		{`"telemetry": {"gauges": [{"name": "x_total", "file": "x"}]}`, "k.telemetry.gauges[0].name: \"x_total\" is a gauge's"},
		{`"telemetry": {"gauges": [{"name": "errors_total", "file": "x"}]}`, "is a gauge's"},
		{`"telemetry": {"counters": [{"name": "x_bytes", "file": "x"}]}`, "k.telemetry.counters[0].name: \"x_bytes\" is a counter's, which ends in _total"},
		{`"telemetry": {"counters": [{"name": "errors_count", "file": "x"}]}`, "which ends in _total"},
		{`"telemetry": {"gauges": [{"name": "a_watts", "file": "x"}, {"name": "a_watts", "file": "y"}]}`, `k.telemetry.gauges[1].name: "a_watts" is there twice`},
		{`"telemetry": {"counters": [{"name": "a_total", "file": "x"}, {"name": "a_total", "file": "y"}]}`, "is there twice"},
		{`"telemetry": {"counters": [{"name": "a_total", "file": "../x"}]}`, "k.telemetry.counters[0].file: \"../x\" must be a path below the object"},
		{`"telemetry": {"gauges": [{"name": "a_total", "file": "x"}], "counters": [{"name": "a_total", "file": "y"}]}`, `k.telemetry.counters[0].name: "a_total" is there twice`},
		{`"telemetry": {"gauges": [{"name": "a_watts", "file": "/dev/x"}]}`, "must be a path below the object"},
	} {
		name := `"name": "acme", `
		if strings.HasPrefix(c.with, `"name"`) {
			name = ""
		}
		source := `"match": {"class": "acme"}, `
		if strings.HasPrefix(c.with, `"match"`) {
			source = ""
		}
		_, errs := compile("{" + name + source + c.with + "}")
		if !slices.ContainsFunc(strings.Split(errs.Error(), "\n"), func(line string) bool { return strings.Contains(line, c.want) }) {
			t.Errorf("%s: %v\nwant %s", c.with, errs, c.want)
		}
	}
}

// A kind's name is there once.
func TestNames(t *testing.T) {
	t.Parallel()
	var errs sdk.FieldErrors
	description.CheckNames("kinds", []string{"a", "b", "a", "b"}, &errs)
	if want := "kinds[2].name: \"a\" is there twice"; len(errs) != 2 || !strings.Contains(errs.Error(), want) {
		t.Errorf("%v, want %s", errs, want)
	}
}

// Whatever text a description has, it is compiled or refused without a panic.
func FuzzCompile(f *testing.F) {
	f.Add(whole)
	f.Add(`{"name": "a", "match": {"paths": ["/dev/{"]}, "id": "{'}'}{{}}{\"{\"}"}`)
	f.Fuzz(func(_ *testing.T, text string) {
		if json.Valid([]byte(text)) {
			_, _ = compile(text)
		}
	})
}

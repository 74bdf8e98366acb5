// Package described is the section of what described devices cost while nothing happens.
package described

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Section is this section of the table.
var Section = rig.Section{
	Name: "described",
	About: "Backends for described devices that are left alone, at the defaults: 4 and 1,024 PCI functions in a tree of /sys\n" +
		"in memory, each with three attributes, and without faults or with two of them: an expression that reads a file, and\n" +
		"a heartbeat. CPU is over 10 minutes, in which these files are read each second, and everything is read again once.",
	Measure: measure,
}

const (
	few, many = 4, 1024
	idle      = 10 * time.Minute
	// settled is after the scans that follow the start.
	settled = 75 * time.Second
	config  = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: bench
    backends:%s
    resources:%s
`
	backend = `
      - name: %[1]s
        command: accelmux-backend-device
        telemetry: {sample: never}
        settings:
          kinds:
            - name: %[1]s
              match: {class: %[2]s, names: ["%[2]s*"], where: 'pci.vendor == "1234"'}
              attributes: {model: self.text("model"), serial: self.text("serial"), link: 'pci.driver + "/" + pci.device'}
              capacities: {memory: self.number("memory")}
              edits: {nodes: [{path: "/dev/{name}"}], env: {NPU: "{name}"}}%[3]s`
	health = `
              health:
                - {fault: dead, when: 'self.text("status") != "ALIVE"', message: "{name} is dead"}
                - {fault: stuck, heartbeat: heartbeat, within: 1h, message: "{name} is stuck"}`
	resource = `
      - {name: example.com/%[1]s, backend: %[1]s}`
)

// nodes are the backends: devices of one class each, and the limit of their CPU in percent of a core. That of many files
// is the engine's own: between polls it pauses for at least 30 times as long as one takes.
var nodes = []struct {
	name, class string
	devices     int
	health      string
	cpu         float64
}{
	{"few", "four", few, "", 0.1},
	{"few-with-health", "four", few, health, 0.1},
	{"many", "thousand", many, "", 0.1},
	{"many-with-health", "thousand", many, health, 3},
}

func measure(s *rig.Setup) (_ []rig.Figure, err error) {
	dir, err := sysroot.MakeTemp()
	if err != nil {
		return nil, err
	}
	if err := (devicetree.Tree{Root: dir}).Write(tree("four", few) + tree("thousand", many)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	var backends, resources strings.Builder
	want := map[string]int{}
	for _, n := range nodes {
		fmt.Fprintf(&backends, backend, n.name, n.class, n.health)
		fmt.Fprintf(&resources, resource, n.name)
		want["example.com/"+n.name] = n.devices
	}
	node, err := rig.Start(rig.NodeOptions{Bin: s.Bin, Dir: dir, Config: fmt.Sprintf(config, &backends, &resources), Want: want})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, node.Stop()) }()
	pause, begin := idle, settled
	if s.Quick {
		pause, begin = 3*time.Second, time.Second
	}
	<-time.After(begin)
	var all []rig.Process
	for _, n := range nodes {
		name := fmt.Sprintf("backend with %d devices", n.devices)
		if n.health != "" {
			name += " with health"
		}
		all = append(all, rig.Process{Name: name, PID: node.Backends[n.name], CPU: n.cpu})
	}
	return rig.Idle(all, pause, "at rest")
}

// tree returns the lines of a tree with the functions of a class.
func tree(class string, devices int) string {
	var lines strings.Builder
	for i := range devices {
		at := fmt.Sprintf("%04x:%02x:%02x.0", len(class), i>>5, i&31)
		lines.WriteString(strings.NewReplacer("FUNCTION", "sys/devices/pci0000:00/"+at, "AT", at, "CLASS", class, "NAME", fmt.Sprint(class, i), "MINOR", strconv.Itoa(i)).Replace(`
dev/NAME: c 240:MINOR
FUNCTION/vendor: 0x1234
FUNCTION/device: 0x5678
FUNCTION/class: 0x120000
FUNCTION/numa_node: 0
FUNCTION/npu/NAME/model: N1
FUNCTION/npu/NAME/serial: AT
FUNCTION/npu/NAME/memory: 1024
FUNCTION/npu/NAME/status: ALIVE
FUNCTION/npu/NAME/heartbeat: 7
sys/bus/pci/devices/AT -> ../../../devices/pci0000:00/AT
sys/class/CLASS/NAME -> ../../devices/pci0000:00/AT/npu/NAME`))
	}
	return lines.String()
}

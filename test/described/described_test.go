// Package described runs the backend for described devices as the agent does: its program, in its sandbox, on trees
// with real device nodes. Each preset and what is converted from other plugins must list there what it lists without a
// sandbox, and give containers what the configuration allows.
package described

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/cmd/accelmux/convert"
	"github.com/accelmux/accelmux/cmd/accelmux/discover"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/hostfs"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/manifests"
	"github.com/accelmux/accelmux/test/patience"
	"github.com/accelmux/accelmux/test/programs"
)

var built = programs.Shared{Args: []string{"../../cmd/accelmux-backend-device"}}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := built.Remove(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// node is a tree, and the backend on it.
type node struct {
	t      *testing.T
	tree   devicetree.Tree
	store  *inventory.Store
	policy inventory.Policy
	// programs is nil before start.
	programs *supervisor.Supervisor
}

// newNode makes a tree with real device nodes.
func newNode(t *testing.T, lines string) *node {
	t.Helper()
	n := &node{t: t, tree: devicetree.New(t, lines)}
	n.tree.MakeNodes(t)
	for _, dir := range []string{n.tree.Root, built.Dir(t)} {
		if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // for the backend's own user
			t.Fatal(err)
		}
	}
	return n
}

// shortDir is a directory for sockets, whose paths must be short.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start runs the backend of a node configuration in a mode of the sandbox, in place of an earlier one.
func (n *node) start(text []byte, mode sandbox.Mode) {
	n.t.Helper()
	loaded, err := config.Parse("node.yaml", text)
	if err != nil {
		n.t.Fatalf("%v\n%s", err, text)
	}
	b := &loaded.Profiles[0].Backends[0]
	paths := n.tree.Host()
	n.policy = inventory.Policy{
		AcceptDeclared: true, Allowed: inventory.EditScope{Devices: b.Allow.Devices, Mounts: b.Allow.Mounts, Env: b.Allow.Env, NetDevices: b.Allow.NetDevices},
		Host: inventory.Host{Host: hostfs.Host{Sysfs: paths.Sysfs, Devfs: paths.Devfs, Procfs: paths.Procfs}, NetHook: "/usr/bin/accelmux-net-hook"},
	}
	n.store = inventory.NewStore(nil)
	n.programs, err = supervisor.New(supervisor.Options{
		BackendDir: built.Dir(n.t), Sink: n,
		Plug: plug.Options{RunDir: shortDir(n.t), Paths: &backendv1.HostPaths{Sysfs: paths.Sysfs, Devfs: paths.Devfs, Procfs: paths.Procfs}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	policy := b.Policy()
	policy.Mode = mode
	n.programs.Apply([]supervisor.Spec{{Name: "device", Command: b.Command, Settings: json.RawMessage(b.Settings), Heartbeat: config.DefaultHeartbeat, Sandbox: policy}})
	n.t.Cleanup(n.stop)
}

func (n *node) stop() {
	if n.programs != nil {
		if err := n.programs.Close(context.WithoutCancel(n.t.Context())); err != nil {
			n.t.Error(err)
		}
		n.programs = nil
	}
}

// Started implements [supervisor.Sink].
func (n *node) Started(backend string, d inventory.Description) {
	n.store.SetPolicies(map[string]inventory.Policy{backend: n.policy})
	n.store.Describe(backend, d)
}

// Described implements [supervisor.Sink].
func (n *node) Described(backend string, d inventory.Description) { n.Started(backend, d) }

// Report implements [supervisor.Sink].
func (n *node) Report(backend string, wire *inventory.Report) error {
	return n.store.Report(backend, wire)
}

// Lost implements [supervisor.Sink].
func (n *node) Lost(string, error) { /* the test's end */ }

// Changed implements [supervisor.Sink].
func (n *node) Changed(string) { /* until looks often */ }

// until waits until the devices are as wanted, and returns them.
func (n *node) until(what string, want func(lines []string) bool) []string {
	n.t.Helper()
	var lines []string
	patience.Until(n.t, what, func() bool {
		status := n.programs.Status()
		lines = n.lines()
		return len(status) == 1 && status[0].Applied && want(lines)
	})
	return lines
}

// listed returns what the backend lists first.
func (n *node) listed(text []byte, mode sandbox.Mode) []string {
	n.t.Helper()
	n.start(text, mode)
	defer n.stop()
	lines := n.until("listed", func([]string) bool { return true })
	for _, m := range n.programs.Status()[0].Sandbox.Missing() {
		if m.Name == sandbox.Files {
			host.Lacks(n.t, "the sandbox has no %s: %s", m.Name, m.Detail)
		}
	}
	return lines
}

// same returns what the backend lists in its sandbox, which must be what it lists without one.
func (n *node) same(text []byte) []string {
	n.t.Helper()
	want, got := n.listed(text, sandbox.Off), n.listed(text, sandbox.Auto)
	if diff := cmp.Diff(want, got); diff != "" {
		n.t.Errorf("without a sandbox and in it (-want +got):\n%s\nproblems %+v", diff, n.store.Snapshot().Backends[0].Problems)
	}
	return got
}

// lines are the devices with their health and nodes.
func (n *node) lines() (lines []string) {
	all := n.store.Snapshot().Backends
	if len(all) == 0 {
		return nil
	}
	for _, d := range all[0].Devices {
		line := d.ID
		for _, e := range d.Edits.DeviceNodes {
			line += " " + e.HostPath
			if e.Path != e.HostPath {
				line += "=" + e.Path
			}
		}
		if d.Health.State != inventory.StateHealthy {
			line += " " + strings.ReplaceAll(d.Health.Message, n.tree.Root, "")
		}
		lines = append(lines, line)
	}
	return lines
}

// configuration is a node configuration with settings of the backend.
func configuration(settings string) []byte {
	return fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nprofiles:\n- name: default\n  backends:\n  - {name: device, settings: %s}\n  resources: [{name: x.example/any, class: other}]\n",
		config.APIVersion, config.Kind, settings)
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Verifies that each preset lists in its sandbox what its golden inventory has, and gives the same to containers as
// without a sandbox.
func TestPresets(t *testing.T) {
	const testdata = "../../backends/device/presets/testdata/"
	for name := range manifests.Load(t, "../../backends/device/manifest.yaml").Presets {
		t.Run(name, func(t *testing.T) {
			var golden struct{ Devices []struct{ ID string } }
			if err := json.Unmarshal([]byte(read(t, testdata+name+".golden")), &golden); err != nil {
				t.Fatal(err)
			}
			got := newNode(t, read(t, testdata+name+".tree")).same(configuration(`{"presets": ["` + name + `"]}`))
			for _, d := range golden.Devices {
				if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line+" ", d.ID+" ") }) {
					t.Errorf("%s is missing in\n%s", d.ID, strings.Join(got, "\n"))
				}
			}
		})
	}
}

// Verifies that discover finds the presets whose nodes have patterns.
func TestDiscover(t *testing.T) {
	const testdata = "../../backends/device/presets/testdata/"
	n := newNode(t, read(t, testdata+"ascend.tree")+read(t, testdata+"cambricon.tree")+read(t, testdata+"intel-dlb.tree"))
	paths := n.tree.Host()
	t.Setenv("TMPDIR", shortDir(t))
	found, err := discover.Find(t.Context(), discover.Options{BackendDir: built.Dir(t), Paths: &backendv1.HostPaths{Sysfs: paths.Sysfs, Devfs: paths.Devfs, Procfs: paths.Procfs}})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Fitting) != 1 || !slices.Equal(found.Fitting[0].Presets, []string{"ascend", "cambricon", "intel-dlb"}) {
		t.Errorf("%+v", found)
	}
}

// converters are those to described devices, by the names of their examples.
var converters = map[string]func(convert.Source) ([]byte, []string, error){
	"generic-device-plugin": convert.Generic, "smarter-device-manager": convert.Smarter, "sriov-device-plugin": convert.SRIOV,
	"rdma-shared-device-plugin": convert.RDMA, "kubevirt": convert.KubeVirt,
}

// converted returns the node configuration of another plugin's configuration.
func converted(t *testing.T, converter, text string) []byte {
	t.Helper()
	out, _, err := converters[converter](convert.Source{Name: converter + ".yaml", File: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Verifies that the example of each converter lists the same in the sandbox as without one.
func TestExamples(t *testing.T) {
	const testdata = "../../cmd/accelmux/convert/testdata/"
	for name := range converters {
		t.Run(name, func(t *testing.T) {
			got := newNode(t, read(t, testdata+"node.tree")).same(converted(t, name, read(t, testdata+name+".yaml")))
			if len(got) == 0 {
				t.Error("nothing is listed")
			}
		})
	}
}

// Verifies what configurations of users list on their machines: nodes by patterns, all nodes of a directory, nodes that
// links lead to.
func TestConfigurations(t *testing.T) {
	for name, c := range map[string]struct {
		converter, tree string
		want            []string
	}{
		"rpi": {"smarter-device-manager", "rpi", []string{
			"/dev/gpiochip0 /dev/gpiochip4", "/dev/gpiochip1", "/dev/gpiomem", "/dev/i2c-1", "/dev/rtc0",
			"/dev/snd/controlC0 /dev/snd/pcmC0D0p /dev/snd/seq /dev/snd/timer", "/dev/ttyACM0", "/dev/ttyS0", "/dev/vchiq", "/dev/video10", "/dev/video11",
		}},
		"daemonset": {"generic-device-plugin", "rpi", []string{
			"/dev/snd/controlC0 /dev/snd/pcmC0D0p /dev/snd/seq /dev/snd/timer", "device node /dev/snd/pcmC0D0c is missing (no file /dev/snd/pcmC0D0c): check that udev runs", "/dev/ttyACM0",
		}},
		"dri":   {"generic-device-plugin", "dri", []string{"/dev/dri/card0 /dev/dri/renderD128", "/dev/dri/renderD128"}},
		"byid":  {"generic-device-plugin", "byid", []string{zigbee}},
		"byid2": {"generic-device-plugin", "byid", []string{zigbee}},
	} {
		t.Run(name, func(t *testing.T) {
			got := newNode(t, read(t, "testdata/"+c.tree+".tree")).same(converted(t, c.converter, read(t, "testdata/"+name+".yaml")))
			for i, line := range got {
				_, got[i], _ = strings.Cut(line, " ")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("without IDs (-want +got):\n%s", diff)
			}
		})
	}
}

// zigbee is a link of udev.
const zigbee = "/dev/serial/by-id/usb-ITead_Sonoff_Zigbee_3.0_USB_Dongle_Plus_0123456789abcdef-if00-port0"

// Verifies that a device that a stable link names is listed again when it has come back under another number, and is
// healthy, without a change of the configuration.
func TestLinkToAnotherNumber(t *testing.T) {
	n := newNode(t, read(t, "testdata/byid.tree"))
	n.start(converted(t, "generic-device-plugin", read(t, "testdata/byid.yaml")), sandbox.Auto)
	isListed := func(lines []string) bool { return len(lines) == 1 && strings.HasSuffix(lines[0], " "+zigbee) }
	n.until("listed", isListed)
	const port = "sys/devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/"
	n.tree.Change(t, "- "+zigbee+"\n- dev/ttyUSB0\n- sys/dev/char/188:0\n- "+port+"ttyUSB0")
	n.until("left out", func(lines []string) bool { return !isListed(lines) })
	n.tree.Change(t, port+`ttyUSB1/tty/ttyUSB1/uevent: MAJOR=188\nMINOR=1\nDEVNAME=ttyUSB1
`+port+`ttyUSB1/tty/ttyUSB1/device -> ../../../ttyUSB1
sys/dev/char/188:1 -> ../../devices/pci0000:00/0000:00:14.0/usb1/1-2/1-2:1.0/ttyUSB1/tty/ttyUSB1
dev/ttyUSB1: c 188:1`)
	n.tree.MakeNodes(t)
	n.tree.Change(t, zigbee+" -> ../../ttyUSB1")
	n.until("listed again", isListed)
}

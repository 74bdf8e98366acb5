package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/fpgadevice"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// fpgaConfig has the FPGA backend as it is on a node, but for how often it looks: no
// uevents come from a test's trees. MODE, SETTINGS and EXTRA are the test's.
const fpgaConfig = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: fpga
        heartbeat: 1s
        recovery: {delay: 0s, reset: never}
        telemetry: {interval: 1s}
        settings: {mode: MODE, health: {interval: 1s}SETTINGS}
    resources:
      - {name: "fpga.intel.com/{functionName}", class: afEXTRA}
      - {name: "fpga.intel.com/{regionName}", class: regionEXTRA}
      - {name: "amd.com/{platformName}", class: cardEXTRA}
`

// The modes of Intel's own plugin.
const (
	modeAF     = "af"
	modeRegion = "region"
	modeDevel  = "region-devel"
)

// programming has the backend program what containers ask for.
const programming = "bitstreams: DIR/bitstreams"

// IDs of accelerator functions that nothing has at first.
const (
	crypto      = "d8424dc4a4a3c413f89e433683f9040b"
	compression = "18b79ffa2ee54aa096ef4230dafacb5f"
)

// fpgaNode is a node whose sysfs and devfs are those of a machine with FPGAs.
type fpgaNode struct {
	*node
	tree    *fpgatree.Tree
	machine fpgatree.Machine
	// kernel answers the backend's ioctls; nil on a node without.
	kernel *fpgadevice.Device
	// extra is for each resource.
	extra string
	// unwritten are units that kubelet heard of before their CDI definition was there.
	unwritten []string
}

// newFPGANode is a node with the machine; only kubelet runs.
func newFPGANode(t *testing.T, m fpgatree.Machine) *fpgaNode {
	t.Helper()
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	return newFPGANodeOf(t, tree, nil)
}

// newFPGADevice is a node whose backend meets the device side of Intel's drivers with
// its own ioctls.
func newFPGADevice(t *testing.T, m fpgatree.Machine) *fpgaNode {
	t.Helper()
	fpgadevice.SkipWithoutFilter(t)
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	if err != nil {
		t.Fatal(err)
	}
	device := fpgadevice.New(t, tree)
	n := newFPGANodeOf(t, tree, device)
	n.change(os.Mkdir(n.path("backends"), 0o755))
	n.change(device.Program(n.path("backends", "accelmux-backend-fpga"), built.Dir(t)+"/accelmux-backend-fpga"))
	return n
}

func newFPGANodeOf(t *testing.T, tree *fpgatree.Tree, device *fpgadevice.Device) *fpgaNode {
	t.Helper()
	n := &fpgaNode{node: newNode(t), tree: tree, machine: tree.Machine(), kernel: device}
	n.change(os.Mkdir(n.path("bitstreams"), 0o755))
	n.kubelet = kubelettest.New(n.path("kubelet"), kubelettest.Options{OnEvent: func(e kubelettest.Event) {
		n.observe(e)
		n.compare(e)
	}})
	n.startKubelet()
	return n
}

// configureFPGA writes the configuration with more settings, such as programming.
func (n *fpgaNode) configureFPGA(mode string, settings ...string) {
	n.Helper()
	more := ""
	for _, s := range settings {
		more += ", " + s
	}
	extra := n.extra
	if extra != "" {
		extra = ", " + extra
	}
	n.configure(strings.NewReplacer("MODE", mode, "SETTINGS", more, "EXTRA", extra).Replace(fpgaConfig))
}

// startFPGAAgent has the agent believe kubelet's list of pods at once, and serve
// metrics. edit changes its other options.
func (n *fpgaNode) startFPGAAgent(edit ...func(*agent.Options)) {
	n.Helper()
	options := n.options()
	options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: n.tree.Devfs(), Sysfs: n.tree.Sysfs()}
	if n.kernel != nil {
		options.BackendDir = n.path("backends")
	}
	quickUsage(&options)
	withMetrics(&options)
	for _, e := range edit {
		e(&options)
	}
	n.startAgentWith(options)
}

// startFPGA is a node with everything running, whose cards are programmed as containers
// ask, and the resources healthy that the cards have in mode region.
func startFPGA(t *testing.T, m fpgatree.Machine, extra string, settings ...string) *fpgaNode {
	t.Helper()
	n := newFPGADevice(t, m)
	n.extra = extra
	n.configureFPGA(modeRegion, append(settings, programming)...)
	n.startFPGAAgent()
	want := map[string]int{}
	for _, c := range n.machine.Cards {
		want[regionResource(c.Interface)]++
	}
	n.wantCapacities(want)
	return n
}

// change makes a change of the tree.
func (n *fpgaNode) change(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

// functionResource and regionResource are the names that users of Intel's plugin know.
func functionResource(iface, function string) string {
	both, err := hex.DecodeString(iface + function)
	if err != nil {
		return err.Error()
	}
	return "fpga.intel.com/af-" + iface[:3] + "." + function[:3] + "." + base64.RawURLEncoding.EncodeToString(both)
}

func regionResource(iface string) string { return "fpga.intel.com/region-" + iface }

// portID is the ID of a port of the function at an address.
func portID(at pci.Address, port string) string {
	return "fpga-" + strings.NewReplacer(":", "-", ".", "-").Replace(at.String()) + "-port-" + port
}

// port is the ID of the first port of the i-th card.
func (n *fpgaNode) port(card int) string { return portID(n.machine.Cards[card].Address, "0") }

// gbs makes a bitstream for a card, which the card takes.
func (n *fpgaNode) gbs(name string, card int, function string) fpgadevice.Bitstream {
	n.Helper()
	b := fpgadevice.Bitstream{
		Interface: n.machine.Cards[card].Interface, AFU: function, Payload: []byte(strings.Repeat("payload of "+name+"\n", 1000)),
	}
	n.file(name, b.GBS())
	if n.kernel != nil {
		n.kernel.Know(b)
	}
	return b
}

// file makes a file in the directory of bitstreams.
func (n *fpgaNode) file(name string, content []byte) {
	n.Helper()
	next := n.path("." + name)
	n.change(errors.Join(os.WriteFile(next, content, 0o600), os.Rename(next, n.path("bitstreams", name))))
}

// definitions are those of the CDI specs as they are now.
func (n *fpgaNode) definitions() map[string]string {
	return n.node.definitions("fpga", "af", "region", "card")
}

// compare sees whether there is a definition for each unit that kubelet hears of, at
// that moment.
func (n *fpgaNode) compare(e kubelettest.Event) {
	if e.Type != kubelettest.EventDevices {
		return
	}
	definitions := n.definitions()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.kubelet.Devices(e.Resource) {
		unit, _, _ := strings.Cut(d.ID, "::")
		if d.Healthy && definitions[unit] == "" {
			n.unwritten = append(n.unwritten, e.Resource+" "+d.ID)
		}
	}
}

// wantWritten fails if a device was advertised before its definition was written.
func (n *fpgaNode) wantWritten() {
	n.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.unwritten) > 0 {
		n.Errorf("advertised before the CDI spec had a definition: %v", n.unwritten)
	}
}

// capacities are the units of each resource that has any.
func (n *fpgaNode) capacities() map[string]int {
	all := map[string]int{}
	for name, r := range n.kubelet.State().Resources {
		if r.Capacity > 0 {
			all[name] = r.Capacity
		}
	}
	return all
}

// wantCapacities waits until kubelet has these resources, with so many units, and no
// other.
func (n *fpgaNode) wantCapacities(want map[string]int) {
	n.Helper()
	if err := n.kubelet.WaitFor(n.soon(), func(kubelettest.State) bool { return maps.Equal(n.capacities(), want) }); err != nil {
		n.Fatalf("kubelet has %v,\nwant %v: %v\n%s", n.capacities(), want, err, n.problems())
	}
}

// nodes are the device nodes of a definition.
func nodes(definition string) []string {
	var all []string
	for _, word := range strings.Split(definition, `"`) {
		if strings.HasPrefix(word, "/dev/") && !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	slices.Sort(all)
	return all
}

// threeCards is a machine with a card of each driver of Intel's, and a second kind of
// the first: a D5005 and an N3000 under DFL, an Arria 10 under the older driver.
func threeCards() fpgatree.Machine {
	m := fpgatree.NewD5005()
	for bus, of := range map[uint8]fpgatree.Machine{0x3b: fpgatree.NewN3000(), 0xaf: fpgatree.NewArria10()} {
		c := of.Cards[0]
		c.Address.Bus = bus
		m.Cards = append(m.Cards, c)
	}
	slices.SortFunc(m.Cards, func(a, b fpgatree.Card) int { return int(a.Address.Bus) - int(b.Address.Bus) })
	return m
}

// resource is that of a card's regions.
func (n *fpgaNode) resource(card int) string { return regionResource(n.machine.Cards[card].Interface) }

// allocate gives a pod one unit of a card's resource.
func (n *fpgaNode) allocate(pod string, card int) string {
	n.Helper()
	allocation, err := n.kubelet.Allocate(n.Context(), pod, "main", n.resource(card), 1)
	if err != nil {
		n.Fatal(err)
	}
	return allocation.Devices[0]
}

// start starts a pod's container.
func (n *fpgaNode) start(pod string) error {
	_, err := n.kubelet.StartContainer(n.Context(), pod, "main")
	return err
}

// function is the ID of what a card has in its first port, as the kernel says.
func (n *fpgaNode) function(card int) string { return n.read(card, "port0", "afu_id") }

// read is a file of a card's "fme" or "port0".
func (n *fpgaNode) read(card int, of, file string) string {
	n.Helper()
	dir, err := n.tree.Find(n.machine.Cards[card].Address, of)
	n.change(err)
	text, err := os.ReadFile(filepath.Join(n.tree.Root, dir, file))
	n.change(err)
	return strings.Trim(string(text), "\x00\n ")
}

// wantProgrammed fails unless a card was programmed that often, by the backend, the last
// time with all of the bitstream, and has its function.
func (n *fpgaNode) wantProgrammed(card, times int, b fpgadevice.Bitstream) {
	n.Helper()
	var calls []fpgadevice.Call
	for _, c := range n.kernel.Calls(fpgadevice.Program) {
		if c.Function == n.machine.Cards[card].Address {
			calls = append(calls, c)
		}
	}
	if len(calls) != times {
		n.Fatalf("card %d was programmed %d times, want %d", card, len(calls), times)
	}
	if times == 0 {
		return
	}
	last := calls[times-1]
	if last.Errno != 0 || last.Size != len(b.Payload) || last.Sum != sha256.Sum256(b.Payload) || last.PID != n.backend("fpga").PID {
		n.Errorf("card %d was programmed with %d bytes by process %d: %v; want those of %s by the backend", card, last.Size, last.PID, last.Errno, b.AFU)
	}
	if f := n.function(card); f != b.AFU {
		n.Errorf("card %d has the function %s, want %s", card, f, b.AFU)
	}
}

// says fails unless an error has all the words.
func (n *fpgaNode) says(err error, words ...string) {
	n.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			n.Errorf("the start says %v\nwant %q in it", err, word)
		}
	}
}

// vf is the address of the first virtual function of a card.
func (n *fpgaNode) vf(card int) pci.Address {
	at := n.machine.Cards[card].Address
	at.Function++
	return at
}

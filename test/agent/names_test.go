package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/status"
)

// named is oneBackend with a resource for each mode of its devices.
var named = strings.NewReplacer(
	"{name: example.com/gpu}", "{name: 'example.com/mode-{mode}'}",
	"count: 4,", "count: 4, attributes: {mode: 1g+me},",
).Replace(oneBackend)

const (
	oneMode   = "example.com/mode-1g.me"
	otherMode = "example.com/mode-2g"
	// allOther puts all devices into the other mode.
	allOther = "devices: {'mock-*': {attributes: {mode: 2g}}}"
)

// startNamed is a node with four devices of oneMode.
func startNamed(t *testing.T) *node {
	t.Helper()
	n := newNode(t)
	n.startKubelet()
	n.configure(named)
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(oneMode, 4, 4)
	return n
}

// A resource whose name is made of an attribute comes with the first device that
// has the value, stays registered when the last one is gone, and is filled again
// when one comes back. A container that holds a device which changed keeps it, and
// nobody gets the device under its new name before.
func TestNamesFollowAttributes(t *testing.T) {
	n := startNamed(t)
	held, err := n.kubelet.Allocate(t.Context(), "pod", "main", oneMode, 1)
	if err != nil {
		t.Fatal(err)
	}
	id := held.Devices[0]
	n.mark(oneMode)
	n.scenario("devices: {" + id + ": {attributes: {mode: 2g}}}")
	n.wantCounts(otherMode, 1, 0)
	n.wantCounts(oneMode, 3, 3)
	n.wantNoDip(oneMode, 3)
	n.wantProblem(id, "held-elsewhere", oneMode)
	n.scenario(allOther)
	n.wantCounts(otherMode, 4, 3)
	n.wantCounts(oneMode, 0, 0)
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err != nil {
		t.Errorf("the container that holds %s does not start again: %v", id, err)
	}
	n.eventually("ready", func() bool { return len(n.agent.Report().NotReady) == 0 })
	if r := n.resource(oneMode); r.State != "serving" || r.Units != 0 || r.Allocated != 1 || r.Injection != "auto" {
		t.Errorf("%s is %+v in status; want it to be served without units, one of them held", oneMode, r)
	}
	n.wantHeldBy(id, "pod")

	// With more than one device there is a choice, which is told by registering anew.
	n.eventually("kubelet may ask for a choice", func() bool { return n.kubelet.State().Resources[otherMode].PreferredAllocation })
	registered := n.kubelet.State().Counts.Registered
	n.kubelet.Free("pod")
	n.wantCounts(otherMode, 4, 4)
	n.scenario("")
	n.wantCounts(oneMode, 4, 4)
	n.wantCounts(otherMode, 0, 0)
	if now := n.kubelet.State().Counts.Registered; now != registered {
		t.Errorf("%d registrations, want the %d before the devices came back", now, registered)
	}
	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(oneMode, 4, 4)
	n.wantCounts(otherMode, 0, 0)
}

func (n *node) resource(name string) status.Resource {
	for _, r := range n.agent.Report().Resources {
		if r.Name == name {
			return r
		}
	}
	return status.Resource{}
}

func (n *node) wantHeldBy(id, pod string) {
	n.Helper()
	n.eventually(id+" is held by "+pod, func() bool {
		holders := n.device(id).Holders
		return len(holders) == 1 && holders[0].Pod == pod
	})
}

// A device that vanishes while a container holds it stays visible under its name,
// also if no other device makes that.
func TestHeldDeviceKeepsItsNameWhenItVanishes(t *testing.T) {
	n := startNamed(t)
	n.scenario("devices: {mock-0: {attributes: {mode: 2g}}}")
	n.wantCounts(otherMode, 1, 1)
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", otherMode, 1); err != nil {
		t.Fatal(err)
	}
	n.scenario("devices: {mock-0: {unplugged: true}}")
	n.wantCounts(otherMode, 1, 0)
	n.wantFault("mock-0", "device-gone")
	n.kubelet.Free("pod")
	n.wantCounts(otherMode, 0, 0)
	n.wantCounts(oneMode, 3, 3)
}

// A change of the configuration leaves a name without devices as it is, if the
// template is still there; without it the name is no longer configured.
func TestNamesOutliveTheConfiguration(t *testing.T) {
	n := startNamed(t)
	n.scenario(allOther)
	n.wantCounts(oneMode, 0, 0)
	n.wantCounts(otherMode, 4, 4)
	n.mark(otherMode)
	n.configure(strings.Replace(named, "resources:\n", "resources:\n      - {name: example.com/more, class: fpga}\n", 1))
	n.eventually("the new configuration is in force", func() bool { return n.resource("example.com/more").Name != "" })
	n.wantNoDip(otherMode, 4)
	if problems := n.problems(); problems != "" {
		t.Errorf("problems after a change that has nothing to do with the names:\n%s", problems)
	}
	n.scenario("")
	n.wantCounts(oneMode, 4, 4)
	n.configure(oneBackend)
	n.wantCounts(gpu, 4, 4)
	n.wantCounts(oneMode, 0, 0)
	n.eventually("a note of the name that stays", func() bool { return strings.Contains(n.resource(otherMode).Note, "no longer configured") })
	if problems := n.problems(); problems != "" {
		t.Errorf("problems after the switch:\n%s", problems)
	}
}

// Devices whose different values make one name are never under it together: who
// has it keeps it, status names the others, and a resource of their own before it
// keeps both.
func TestNamesAreNotSharedByKinds(t *testing.T) {
	n := startNamed(t)
	n.scenario("devices: {mock-2: {attributes: {mode: 1g.me}}, mock-3: {attributes: {mode: '++'}}}")
	n.wantCounts(oneMode, 2, 2)
	n.wantCounts("example.com/mode", 1, 1) // "mode-.."
	n.wantProblem("mock-2", `mode "1g.me"`, `other devices have by mode "1g+me"`, "give one of them a resource of its own before this one")
	if r := n.device("mock-2").Resource; r != "" {
		t.Errorf("mock-2 is a device of %s", r)
	}
	n.configure(strings.Replace(named, "resources:\n", `resources:
      - {name: example.com/plain, selector: 'device.attributes["mock"].mode == "1g.me"'}
`, 1))
	n.wantCounts("example.com/plain", 1, 1)
	n.wantCounts(oneMode, 2, 2)
	n.eventually("no problem any more", func() bool { return n.problems() == "" })
	if diff := cmp.Diff([]string{"example.com/plain", "example.com/mode", oneMode, oneMode}, n.names("mock-2", "mock-3", "mock-0", "mock-1")); diff != "" {
		t.Errorf("resources of devices (-want +got):\n%s", diff)
	}
}

func (n *node) names(devices ...string) []string {
	var names []string
	for _, id := range devices {
		names = append(names, n.device(id).Resource)
	}
	return names
}

// What a container holds is registered under its name also by a later agent, that
// never saw a device make it: without that, kubelet would refuse to start the
// container again.
func TestHeldNameOutlivesTheAgent(t *testing.T) {
	n := startNamed(t)
	held, err := n.kubelet.Allocate(t.Context(), "pod", "main", oneMode, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.wantHeldBy(held.Devices[0], "pod")
	n.scenario(allOther)
	n.wantCounts(otherMode, 4, 3)
	n.stopAgent()
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(otherMode, 4, 3)
	n.wantCounts(oneMode, 0, 0)
	n.eventually("ready", func() bool { return len(n.agent.Report().NotReady) == 0 })
	n.kubelet.Free("pod")
	n.wantCounts(otherMode, 4, 4)
	n.stopAgent()
	n.startAgentWith(options)
	n.wantCounts(otherMode, 4, 4)
	if n.resource(oneMode).Name != "" {
		t.Errorf("%s is there, though nobody has it", oneMode)
	}
}

// A newer agent takes over though the older one serves a resource that has no
// device any more, and that the newer one has never seen.
func TestTakeOverWithAnEmptyName(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(named)
	older := n.startPeer("older")
	n.wantCounts(oneMode, 4, 4)
	n.scenario(allOther)
	n.wantCounts(otherMode, 4, 4)
	older.wantRole(status.RoleActive)
	n.mark(otherMode)
	newer := n.startPeer("newer")
	newer.wantRole(status.RoleStandby)
	older.end()
	newer.wantRole(status.RoleActive)
	n.wantNoDip(otherMode, 4)
	report, err := newer.client.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(report.Resources, func(r status.Resource) bool { return r.Name == oneMode }) {
		t.Errorf("the newer agent has %s, which no device makes", oneMode)
	}
	n.scenario("")
	n.wantCounts(oneMode, 4, 4)
}

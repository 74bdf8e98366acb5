package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/core/usage"
)

// oneBackend has four whole devices, driven by the scenario file.
const oneBackend = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, numaNodes: 2, scenarioFile: DIR/scenario.yaml}
        heartbeat: 100ms
        recovery: {delay: 0s}
    resources:
      - {name: example.com/gpu}
`

// twoBackends has a second backend, an FPGA vendor, that nothing happens to.
const twoBackends = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {count: 4, scenarioFile: DIR/scenario.yaml}
        heartbeat: 100ms
        holdover: 500ms
        recovery: {delay: 0s}
      - name: other
        command: accelmux-backend-mock
        settings: {count: 2, class: fpga, id: "f-{{.Index}}"}
    resources:
      - {name: example.com/gpu, backend: mock}
      - {name: example.com/fpga, backend: other}
`

// Rule 1: a dead device costs one device.
func TestDeadDeviceCostsOneDevice(t *testing.T) {
	n := startNode(t, 4, twoBackends)
	n.wantCounts("example.com/fpga", 2, 2)
	n.mark("example.com/fpga")
	n.scenario(`devices: {mock-1: {fault: {code: off-the-bus, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-1", "off-the-bus")
	n.wantNoDip("example.com/fpga", 2)
}

// Rule 1: a dead backend costs, after its holdover, its own devices and no
// others; they come back with it.
func TestDeadBackendCostsItsOwnDevicesAfterHoldover(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(twoBackends)
	options := n.options()
	options.Timing.Supervisor.Failures = 1000 // no quarantine here
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	n.wantCounts("example.com/fpga", 2, 2)
	n.mark("example.com/fpga")
	n.scenario(`crash: {repeat: true}`)
	n.wantCounts(gpu, 4, 0)
	n.wantFault("mock-0", "backend-lost")
	n.wantNoDip("example.com/fpga", 2)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
}

// Rule 2: a fault that needs more than time sticks: over the backend's death,
// kubelet's restart and the agent's own, although the hardware says no more of it.
func TestFaultSticks(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	n.scenario(`devices: {mock-2: {fault: {code: xid-79, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)

	n.scenario("")
	before := n.backend("mock")
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend is back", func() bool { return n.backend("mock").Generation > before.Generation })
	n.wantFault("mock-2", "xid-79")
	n.wantCounts(gpu, 4, 3)

	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 3)

	n.stopAgent()
	n.startAgent()
	n.wantCounts(gpu, 4, 3)
	n.wantFault("mock-2", "xid-79")
}

// Rule 2: a graver fault is not hidden by a lesser one that comes later.
func TestGraverFaultStaysOnTop(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	n.scenario(`devices: {mock-0: {fault: {code: grave, recovery: reboot}}}`)
	n.wantFault("mock-0", "grave")
	n.scenario(`devices: {mock-0: {fault: {code: light, recovery: self}}}`)
	n.wantFault("mock-0", "light")
	if top := n.device("mock-0").Faults[0].Code; top != "grave" {
		t.Errorf("the fault on top is %q, want the graver one", top)
	}
	n.scenario("")
	n.eventually("the lesser fault passes", func() bool { return len(n.device("mock-0").Faults) == 1 })
	n.wantCounts(gpu, 4, 3)
}

// Rule 2: replicas and partitions share the fate of their device.
func TestReplicasAndPartitionsShareTheFate(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings:
          scenarioFile: DIR/scenario.yaml
          devices:
            - {count: 2, id: "whole-{{.GroupIndex}}"}
            - {count: 2, class: npu, id: "card-{{.GroupIndex}}", partitions: {count: 3, listParent: true}}
        recovery: {delay: 0s}
    resources:
      - {name: example.com/gpu, class: gpu, replicas: 4}
      - {name: example.com/part, selector: '"parent" in device.attributes["accelmux.io"]'}
`)
	n.startAgent()
	n.wantCounts(gpu, 8, 8)
	n.wantCounts("example.com/part", 6, 6)
	n.scenario(`
devices:
  whole-1: {fault: {code: a, recovery: reboot}}
  card-0: {fault: {code: b, recovery: reboot}}`)
	n.wantCounts(gpu, 8, 4)
	n.wantCounts("example.com/part", 6, 3)
}

// Rule 3: every fault has a way back without a restart: by itself, by the
// backend's evidence, and by a reset.
func TestFaultRecovers(t *testing.T) {
	for name, way := range map[string]struct{ fault, over string }{
		"by itself":           {"{code: hot, recovery: self}", ""},
		"evidence":            {"{code: ecc, recovery: replacement}", "devices: {mock-3: {recovered: true}}"},
		"a reset that worked": {"{code: stuck, recovery: reset}", "devices: {mock-3: {fault: {code: stuck, recovery: reset}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, 4, oneBackend)
			n.scenario(`devices: {mock-3: {fault: ` + way.fault + `, reset: {result: failed, message: not yet}}}`)
			n.wantCounts(gpu, 4, 3)
			n.scenario(way.over)
			n.wantCounts(gpu, 4, 4)
		})
	}
}

// Rule 3: a new boot clears what needs a reboot.
func TestNewBootClearsFaults(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	n.scenario(`devices: {mock-1: {fault: {code: xid-79, recovery: reboot}}}`)
	n.wantCounts(gpu, 4, 3)
	n.stopAgent()
	n.scenario("")
	n.boot(secondBoot)
	n.startAgent()
	n.wantCounts(gpu, 4, 4)
}

// partitioned is one card whose two partitions lose their state together.
const partitioned = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: mock
        settings: {id: card, partitions: {count: 2}, scenarioFile: DIR/scenario.yaml}
        recovery: {delay: 0s}
    resources:
      - {name: example.com/gpu}
`

// quickUsage lets the book believe kubelet's list at once.
var quickUsage = usage.Timing{Grace: 10 * time.Millisecond, Unseen: 10 * time.Millisecond, Settle: 10 * time.Millisecond, Spacing: 10 * time.Millisecond}

// Rule 4: a device is not reset while another of its reset group is held; it is
// as soon as the holder is gone.
func TestHeldGroupIsNotReset(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(partitioned)
	options := n.options()
	options.Timing.Usage = quickUsage
	n.startAgentWith(options)
	n.wantCounts(gpu, 2, 2)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	other := "card-p0"
	if slices.Contains(allocation.Devices, other) {
		other = "card-p1"
	}
	n.scenario(fmt.Sprintf(`devices: {%s: {fault: {code: stuck, recovery: reset}}}`, other))
	n.wantProblem(other, "stuck", "in use")
	if n.logged("reset done") || n.logged("reset failed") {
		t.Error("the group was reset although a partition is held")
	}
	n.kubelet.Free("pod")
	n.wantCounts(gpu, 2, 2)
	if !n.logged("reset done") {
		t.Error("the device recovered without a reset")
	}
}

// Rule 5: what breaks the contract is left out and reported, device by device;
// the rest and the other backends go on.
func TestGarbageIsLeftOut(t *testing.T) {
	n := startNode(t, 4, twoBackends)
	n.wantCounts("example.com/fpga", 2, 2)
	n.mark("example.com/fpga")
	n.mark(gpu)
	n.scenario(`garbage: {kinds: [duplicate-ids, control-characters, forbidden-paths, bad-ids]}`)
	n.wantProblem("mock", "mock-0", "IDs must be unique")
	n.wantProblem("mock", `\x1b`, "left out")
	n.wantProblem("mock", "/dev/mem", "never given to a container")
	n.wantProblem("mock", "/etc/shadow", "outside of what the configuration allows")
	n.wantNoDip("example.com/fpga", 2)
	n.wantNoDip(gpu, 4)
	for _, d := range n.agent.Devices() {
		if strings.ContainsAny(d.ID, "\x00\n\x1b") {
			t.Errorf("device %q got in", d.ID)
		}
	}
}

// Rule 5: a backend whose reports are bad as a whole is quarantined; its devices
// stay for the holdover, the others never notice.
func TestBadBackendIsQuarantined(t *testing.T) {
	n := startNode(t, 4, twoBackends)
	n.wantCounts("example.com/fpga", 2, 2)
	n.mark("example.com/fpga")
	n.scenario(`garbage: {repeat: true, kinds: [too-many-devices]}`)
	n.eventually("the backend is in quarantine", func() bool {
		return n.backend("mock").State == string(supervisor.Quarantined)
	})
	n.wantProblem("mock", "8192")
	n.wantNoDip("example.com/fpga", 2)
}

// Rule 6: a backend that crashes again and again is no outage: its devices stay,
// and allocations go on.
func TestCrashIsNoOutage(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	n.mark(gpu)
	for i := range 4 {
		before := n.backend("mock")
		if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		pod := fmt.Sprintf("pod-%d", i)
		if _, err := n.kubelet.Allocate(t.Context(), pod, "main", gpu, 1); err != nil {
			t.Errorf("allocation while the backend is dead: %v", err)
		}
		n.eventually("the backend is back", func() bool {
			now := n.backend("mock")
			return now.Generation > before.Generation && now.PID != before.PID
		})
	}
	n.wantNoDip(gpu, 4)
}

// Rule 7: kubelet restarts are events: registered again each time, without an
// error to the operator, and without a stale socket.
func TestKubeletRestarts(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 2); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := n.kubelet.Restart(); err != nil {
			t.Fatal(err)
		}
		n.wantCounts(gpu, 4, 4)
	}
	counts := n.kubelet.State().Counts
	if counts.Duplicates > 0 {
		t.Errorf("%d registrations of a socket that was connected", counts.Duplicates)
	}
	sockets, err := filepath.Glob(n.path("kubelet", "device-plugins", "accelmux-*"))
	if err != nil || len(sockets) != 1 {
		t.Errorf("sockets of ours: %v %v, want one", sockets, err)
	}
}

// Rule 8: what exists before and after a change keeps its capacity all the time:
// another backend behind the same resource, other settings, other resources
// beside it. A resource that goes away ends with an empty list.
func TestSwapKeepsRegistration(t *testing.T) {
	n := startNode(t, 4, twoBackends)
	n.wantCounts("example.com/fpga", 2, 2)
	registered := n.kubelet.State().Counts.Registered
	n.mark(gpu)
	n.configure(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - name: successor
        command: accelmux-backend-mock
        settings: {count: 6, id: "new-{{.Index}}"}
    resources:
      - {name: example.com/gpu}
`)
	n.wantCounts(gpu, 6, 6)
	n.wantNoDip(gpu, 4)
	n.wantCounts("example.com/fpga", 0, 0)
	n.mark(gpu)
	n.configure(strings.ReplaceAll(oneBackend, "count: 4", "count: 8"))
	n.wantCounts(gpu, 8, 8)
	n.wantNoDip(gpu, 6)
	if now := n.kubelet.State().Counts.Registered; now != registered {
		t.Errorf("%d registrations in all, want the first %d only", now, registered)
	}
}

// Rule 8: a setting and the selector that goes with it change in one step: at no
// moment does an old selector look at new attributes, or the other way round.
func TestSettingAndSelectorChangeTogether(t *testing.T) {
	config := func(model string) string {
		return strings.NewReplacer(
			"count: 4", "count: 4, model: "+model,
			"{name: example.com/gpu}", `{name: example.com/gpu, selector: 'device.attributes["mock"].model == "`+model+`"'}`,
		).Replace(oneBackend)
	}
	n := startNode(t, 4, config("M0"))
	n.mark(gpu)
	for i := range 10 {
		model := fmt.Sprintf("M%d", i+1)
		n.configure(config(model))
		n.eventually("the model is "+model, func() bool { return n.device("mock-0").Attributes["model"] == model })
	}
	n.wantCounts(gpu, 4, 4)
	n.wantNoDip(gpu, 4)
}

// Rule 8: a new backend that does not run takes nothing away: the old one stays
// until its successor has delivered, and status says what is waited for.
func TestSwapWaitsForTheNewBackend(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	n.mark(gpu)
	next := strings.NewReplacer("name: mock", "name: missing").Replace(oneBackend)
	n.configure(next)
	n.wantProblem("missing", "accelmux-backend-missing")
	n.wantProblem("would stop backend mock")
	n.wantNoDip(gpu, 4)
	n.configure(oneBackend)
	n.eventually("the switch is called off", func() bool { return !strings.Contains(n.problems(), "missing") })
	n.wantNoDip(gpu, 4)
}

// Rule 10: a bad configuration is refused with file, line and field; the last
// good one stays in force, and the next good one is applied.
func TestBadConfigurationIsRefused(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	n.mark(gpu)
	n.configure(strings.Replace(oneBackend, "name: example.com/gpu", "nmae: example.com/gpu", 1))
	n.wantProblem("node.yaml:12", "profiles[0].resources[0]", "nmae")
	n.wantNoDip(gpu, 4)
	n.configure(strings.Replace(oneBackend, "count: 4", "count: many", 1))
	n.wantProblem("count")
	n.wantNoDip(gpu, 4)
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 5", 1))
	n.wantCounts(gpu, 5, 5)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// Rule 11: a backend that is alive but silent is found out by its heartbeat and
// replaced; a call that it does not answer ends by our deadline; and the agent
// ends in time although a backend is stopped.
func TestNothingWaitsForASilentBackend(t *testing.T) {
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 4, hooks: [prepare]", 1))
	options := n.options()
	options.Timing.Supervisor.Prepare = 500 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)

	before := n.backend("mock")
	n.scenario(`hang: {}`)
	n.eventually("the hung backend is replaced", func() bool { return n.backend("mock").Generation > before.Generation })
	n.wantCounts(gpu, 4, 4)

	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1); err != nil {
		t.Fatal(err)
	}
	stopped := n.backend("mock").PID
	if err := unix.Kill(stopped, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend has stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stopped))
		return err == nil && strings.Contains(string(stat), ") T ")
	})
	began := time.Now()
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err == nil {
		t.Error("a container started though its device could not be prepared")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the start failed after %v only", took)
	}
	n.stopAgent() // within 5 s
}

// Rule 12: everything the agent writes is below the directories it was given.
func TestPathsAreInjectable(t *testing.T) {
	n := startNode(t, 4, oneBackend)
	for _, directory := range []string{"/etc/cdi", "/var/run/cdi", "/var/lib/kubelet/device-plugins", "/var/lib/accelmux"} {
		found, err := filepath.Glob(filepath.Join(directory, "accelmux*"))
		if err != nil || len(found) > 0 {
			t.Errorf("%s: %v %v, want nothing of this node", directory, found, err)
		}
	}
	specs, err := filepath.Glob(n.path("cdi", "accelmux-*.json"))
	if err != nil || len(specs) != 1 {
		t.Errorf("CDI specs below the given directory: %v %v, want one", specs, err)
	}
	n.stopAgent()
	n.wantNothingLeft()
}

// wantNothingLeft fails if a stopped agent left a socket, a spec or a temporary
// file.
func (n *node) wantNothingLeft() {
	n.Helper()
	allowed := []string{"state/health", "state/usage", "state/lock"}
	for _, root := range []string{"cdi", "state", "kubelet/device-plugins", "kubelet/plugins_registry"} {
		err := filepath.WalkDir(n.path(root), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			relative, err := filepath.Rel(n.dir, path)
			if err == nil && !slices.Contains(allowed, relative) && !strings.HasSuffix(path, "kubelet.sock") {
				n.Errorf("left behind: %s", relative)
			}
			return err
		})
		if err != nil {
			n.Error(err)
		}
	}
}

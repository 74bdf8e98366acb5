package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Rule 7: kubelet restarts are events: registered again each time, without an
// error to the operator, and without a stale socket.
func TestKubeletRestarts(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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

// Rule 12: everything the agent writes is below the directories it was given.
func TestPathsAreInjectable(t *testing.T) {
	t.Parallel()
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
	allowed := []string{"state/health", "state/health.reserve", "state/usage", "state/lock", "state/standby.lock", "state/profile", "run/run.lock"}
	for _, root := range []string{"cdi", "state", "run", "kubelet/device-plugins", "kubelet/plugins_registry"} {
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

// Rule 8: while a switch waits, the devices of the backends that are only in the new
// configuration are nobody's: the old resources do not take them in, though their
// selectors would, and a switch that is called off leaves nothing of them.
func TestStartingBackendIsNotServedYet(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	next := func(missing string) string {
		return strings.Replace(oneBackend, "      - name: mock\n", `      - {name: `+missing+`}
      - {name: successor, command: accelmux-backend-mock, settings: {count: 6, id: "new-{{.Index}}"}}
      - name: other
        command: accelmux-backend-mock
`, 1)
	}
	n.configure(next("missing"))
	n.wantProblem("would stop backend mock")
	n.eventually("the successor has delivered", func() bool { return n.backend("successor").Devices == 6 })
	n.scenario(`devices: {mock-1: {fault: {code: a, recovery: self}}}`)
	n.wantCounts(gpu, 4, 3)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
	if d := n.device("new-0"); d.ID != "" {
		t.Errorf("a device of a backend that is not in force: %+v", d)
	}
}

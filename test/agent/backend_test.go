package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/patience"
)

// Rule 6: a backend that crashes again and again is no outage: its devices stay,
// and allocations go on.
func TestCrashIsNoOutage(t *testing.T) {
	t.Parallel()
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

// Rule 11: a call that a backend does not answer ends by our deadline, and the agent ends
// in time although a backend is stopped.
func TestNothingWaitsForAStoppedBackend(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	// Nobody misses its heartbeat before the call is over.
	n.configure(strings.NewReplacer("count: 4", "count: 4, hooks: [prepare]", "heartbeat: 300ms", "heartbeat: 1m").Replace(oneBackend))
	options := n.options()
	options.Timing.Supervisor.Prepare = 500 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1); err != nil {
		t.Fatal(err)
	}
	pid := n.backend("mock").PID
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	n.eventually("the backend has stopped", func() bool { return stopped(pid) })
	began := time.Now()
	if _, err := n.kubelet.StartContainer(t.Context(), "pod", "main"); err == nil {
		t.Error("a container started though its device could not be prepared")
	}
	if took := time.Since(began); took > patience.Long/2 {
		t.Errorf("the start failed after %v only", took)
	}
	n.stopAgent()
}

// Verifies that what a backend learns only while it prepares a device is in the CDI
// definition of the one container that it was asked for, the same at each start, and gone
// with that container: of two that share a device each has its own.
func TestPrepareAddsEdits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ config, resource string }{
		"a name as it is written":   {oneBackend, gpu},
		"a name made of attributes": {named, oneMode},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.startKubelet()
			n.configure(strings.NewReplacer("- {name: ", "- {replicas: 2, name: ",
				"count: 4", `count: 1, hooks: [prepare, release], prepare: {edits: {env: {ACCELMUX_MOCK_HOLDER: "{{.Holder}}"}}}`).Replace(c.config))
			options := n.options()
			quickUsage(&options)
			n.startAgentWith(options)
			n.wantCounts(c.resource, 2, 2)
			holders := map[string]string{}
			start := func(pod string) {
				settings, err := n.kubelet.StartContainer(t.Context(), pod, "main")
				if err != nil {
					t.Fatal(err)
				}
				switch holder := n.variable(settings, "ACCELMUX_MOCK_HOLDER"); holders[pod] {
				case "":
					holders[pod] = holder
				case holder:
				default:
					t.Errorf("%s is the holder %q, and was %q", pod, holder, holders[pod])
				}
			}
			for _, pod := range []string{"a", "b"} {
				if _, err := n.kubelet.Allocate(t.Context(), pod, "main", c.resource, 1); err != nil {
					t.Fatal(err)
				}
				start(pod)
			}
			n.stopAgent()
			n.startAgentWith(options)
			n.wantCounts(c.resource, 2, 2)
			// A start before that is refused, and tried again by kubelet.
			n.eventually("the backend runs", func() bool { return n.backend("mock").State == "running" })
			start("b")
			start("a")
			if holders["a"] == "" || holders["a"] == holders["b"] {
				t.Errorf("holders %q", holders)
			}
			has := func(pod string) bool {
				spec, err := os.ReadFile(n.path("cdi", "accelmux-mock-holder.json"))
				return err == nil && strings.Contains(string(spec), holders[pod])
			}
			n.kubelet.Free("a")
			n.eventually("the edits go with the holder", func() bool { return !has("a") })
			if !has("b") {
				t.Error("the other holder's edits went, too")
			}
			n.eventually("the shared device is released", func() bool {
				return strings.Contains(n.log.String(), `msg="device released" backend=mock device=mock-0 holder=`+holders["a"])
			})
		})
	}
}

// Verifies that a container which was given its devices before they had to be prepared does
// not start without the edits that Prepare returns for it.
func TestPrepareAfterAnEarlierAllocation(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1); err != nil {
		t.Fatal(err)
	}
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 4, hooks: [prepare], prepare: {edits: {env: {ACCELMUX_MOCK_MADE: x}}}", 1))
	n.eventually("the start fails", func() bool {
		_, err := n.kubelet.StartContainer(t.Context(), "pod", "main")
		return err != nil && strings.Contains(err.Error(), "create the pod again")
	})
}

// The values of a variable that devices join reach the container together, in the
// answer to Allocate; beside CDI names too, which say nothing of it.
func TestJoinedEnv(t *testing.T) {
	t.Parallel()
	const edits = `edits: {env: {ACCELMUX_MOCK_VISIBLE: "{{.ID}}"}, envSeparators: {ACCELMUX_MOCK_VISIBLE: ","}, deviceNodes: [{path: "/dev/x{{.Index}}", hostPath: /dev/null}]}`
	for _, injection := range []string{"plain", "cdi", "cdi-annotations"} {
		n := startNode(t, 8, strings.NewReplacer("count: 4", "count: 4, "+edits,
			"{name: example.com/gpu}", "{name: example.com/gpu, replicas: 2, maxReplicasPerContainer: 0, injection: "+injection+"}").Replace(oneBackend))
		allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 8)
		if err != nil {
			t.Fatal(err)
		}
		if got := allocation.Response.GetEnvs()["ACCELMUX_MOCK_VISIBLE"]; got != "mock-0,mock-1,mock-2,mock-3" {
			t.Errorf("%s: VISIBLE is %q, want all four devices", injection, got)
		}
		spec, err := os.ReadFile(n.path("cdi", "accelmux-mock-gpu.json"))
		if (err == nil) != (injection != "plain") {
			t.Errorf("%s: the CDI definitions: %v", injection, err)
		}
		if strings.Contains(string(spec), "VISIBLE") {
			t.Errorf("%s: the CDI definitions hide what kubelet was answered", injection)
		}
	}
}

// What Prepare says in place of such a value is joined with the values of the
// container's other devices, those that are not prepared among them.
func TestPrepareJoinsEnv(t *testing.T) {
	t.Parallel()
	const kind = `count: 2, edits: {env: {ACCELMUX_MOCK_VISIBLE: "{{.ID}}"}, envSeparators: {ACCELMUX_MOCK_VISIBLE: ","}, deviceNodes: [{path: "/dev/x{{.Index}}", hostPath: /dev/null}]}`
	n := startNode(t, 4, strings.Replace(oneBackend, "count: 4, numaNodes: 2", "devices: [{"+kind+
		`, hooks: [prepare], prepare: {edits: {env: {ACCELMUX_MOCK_VISIBLE: "made-{{.ID}}"}, envSeparators: {ACCELMUX_MOCK_VISIBLE: ","}}}}, {`+kind+"}]", 1))
	if _, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 4); err != nil {
		t.Fatal(err)
	}
	settings, err := n.kubelet.StartContainer(t.Context(), "pod", "main")
	if err != nil {
		t.Fatal(err)
	}
	if got := n.variable(settings, "ACCELMUX_MOCK_VISIBLE"); got != "made-mock-0,made-mock-1,mock-2,mock-3" {
		t.Errorf("the container gets %q", got)
	}
}

// A backend that was written from the contract's text alone, without the SDK and
// without go-plugin, serves its device like any other.
func TestBackendFromTheContractAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(`
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - {name: bare, heartbeat: 300ms, allow: {env: [BARE]}}
    resources:
      - {name: example.com/gpu}
`)
	options := n.options()
	options.BackendDir = n.path("backends")
	if err := os.Mkdir(options.BackendDir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(built.Dir(t), "bare"), filepath.Join(options.BackendDir, "accelmux-backend-bare")); err != nil {
		t.Fatal(err)
	}
	n.startAgentWith(options)
	n.wantCounts(gpu, 1, 1)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil || len(allocation.Response.GetCdiDevices()) != 1 {
		t.Fatalf("allocation %+v, %v", allocation, err)
	}
	n.stopAgent()
	if n.logged("backend failed") {
		t.Error("the backend failed on the way")
	}
}

// What Release could not do because the backend was away is done when it is back.
func TestReleaseIsTriedAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 4, hooks: [release]", 1))
	options := n.options()
	quickUsage(&options)
	options.Timing.ReleaseBackoff = 50 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(gpu, 4, 4)
	n.scenario(`devices: {mock-*: {release: {error: not now}}}`)
	allocation, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 1)
	if err != nil {
		t.Fatal(err)
	}
	n.kubelet.Free("pod")
	n.eventually("the release fails", func() bool { return n.logged("not now") })
	n.scenario("")
	n.eventually("the device is released", func() bool {
		return strings.Contains(n.log.String(), `msg="device released" backend=mock device=`+allocation.Devices[0])
	})
}

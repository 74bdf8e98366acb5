package agent

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Rule 6: a backend that crashes again and again is no outage: its devices stay,
// and allocations go on.
func TestCrashIsNoOutage(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.mark(gpu)
	for _, pod := range []string{"a", "b", "c"} {
		before := n.backend("mock")
		n.kill(before.PID, unix.SIGKILL)
		n.allocate(pod, gpu, 1)
		n.eventually("the backend is back", func() bool {
			now := n.backend("mock")
			return now.Generation > before.Generation && now.PID != before.PID
		})
	}
	n.wantNoDip(gpu, 4)
}

// Verifies that what a backend learns only while it prepares a device is in the CDI
// definition of the one container that it was asked for, the same at each start, and gone
// with that container: of two that share a device each has its own. The name of the resource
// is made of attributes.
func TestPrepareAddsEdits(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.NewReplacer("- {name: ", "- {replicas: 2, name: ",
		"count: 4", `count: 1, hooks: [prepare, release], prepare: {edits: {env: {ACCELMUX_MOCK_HOLDER: "{{.Holder}}"}}}`).Replace(named))
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.wantCounts(oneMode, 2, 2)
	holders := map[string]string{}
	start := func(pod string) {
		settings, err := n.kubelet.StartContainer(t.Context(), pod, "main")
		if err != nil {
			t.Fatal(err)
		}
		holder := n.variable(settings, "ACCELMUX_MOCK_HOLDER")
		if before := holders[pod]; before != "" && before != holder {
			t.Errorf("%s is the holder %q, and was %q", pod, holder, before)
		}
		holders[pod] = holder
	}
	for _, pod := range []string{"a", "b"} {
		n.allocate(pod, oneMode, 1)
		start(pod)
	}
	n.stopAgent()
	n.startAgentWith(options)
	n.wantCounts(oneMode, 2, 2)
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
		return n.logged(`msg="device released" backend=mock device=mock-0 holder=` + holders["a"])
	})
}

// Verifies that a container which was given its devices before they had to be prepared does
// not start without the edits that Prepare returns for it.
func TestPrepareAfterAnEarlierAllocation(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.allocate("pod", gpu, 1)
	n.configure(strings.Replace(oneBackend, "count: 4", "count: 4, hooks: [prepare], prepare: {edits: {env: {ACCELMUX_MOCK_MADE: x}}}", 1))
	n.eventually("the start fails", func() bool {
		err := n.startContainer("pod")
		return err != nil && strings.Contains(err.Error(), "create the pod again")
	})
}

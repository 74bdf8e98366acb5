package agent

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// linkNode is a node whose device mock-0 gives containers what is behind a link, and a function
// that changes the link: to "good", which the configuration allows, or to ".ssh".
func linkNode(t *testing.T, resource string, interval time.Duration) (*node, func(target string)) {
	t.Helper()
	n := newNode(t)
	for _, dir := range []string{"data", "good", ".ssh"} {
		if err := os.Mkdir(n.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target string) {
		t.Helper()
		if err := errors.Join(os.Symlink(n.path(target), n.path("data", "new")), os.Rename(n.path("data", "new"), n.path("data", "link"))); err != nil {
			t.Fatal(err)
		}
	}
	link("good")
	n.startKubelet()
	n.configure(strings.NewReplacer("{count: 4, numaNodes: 2,", "{devices: [{count: 1, edits: {mounts: [{hostPath: DIR/data/link, containerPath: /data}]}}, {count: 1}],",
		"heartbeat: 300ms", "heartbeat: 300ms\n        allow: {mounts: [DIR/data/*]}", "{name: example.com/gpu}", resource).Replace(oneBackend))
	options := n.options()
	options.Timing.HostFiles = interval
	n.startAgentWith(options)
	n.wantCounts(gpu, 2, 2)
	return n, link
}

// A link that leads elsewhere after its device was listed costs the device, with a problem that
// has what it leads to. When it is as before, so is the device.
func TestLinkLeadsElsewhere(t *testing.T) {
	t.Parallel()
	n, link := linkNode(t, "{name: example.com/gpu}", 50*time.Millisecond)
	n.wantResolves("mock-0", "mock-1")
	link(".ssh")
	n.wantCounts(gpu, 1, 1)
	n.wantProblem("mock-0", n.path("data", "link"), "leads to", n.path(".ssh"))
	n.wantResolves("mock-1")
	link("good")
	n.wantCounts(gpu, 2, 2)
	n.wantResolves("mock-0", "mock-1")
}

// Without CDI a link is followed when a container gets the device, and the container gets what
// was checked.
func TestLinkLeadsElsewhereAtAllocation(t *testing.T) {
	t.Parallel()
	n, link := linkNode(t, "{name: example.com/gpu, injection: plain}", time.Hour)
	link(".ssh")
	if a, err := n.kubelet.Allocate(t.Context(), "refused", "main", gpu, 2); err == nil || !strings.Contains(err.Error(), "leads to") {
		t.Errorf("got %+v, %v", a, err)
	}
	link("good")
	a, err := n.kubelet.Allocate(t.Context(), "pod", "main", gpu, 2)
	if err != nil {
		t.Fatal(err)
	}
	if mounts := a.Response.GetMounts(); len(mounts) != 1 || mounts[0].GetHostPath() != n.path("good") {
		t.Errorf("mounts %v, want %s", mounts, n.path("good"))
	}
}

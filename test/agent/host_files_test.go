package agent

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// A link that leads elsewhere after its device was listed costs the device, with a problem that
// has what it leads to, and no definition for containers is written with it. When it is as
// before, so is the device.
func TestLinkLeadsElsewhere(t *testing.T) {
	t.Parallel()
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
		"heartbeat: 300ms", "heartbeat: 300ms\n        allow: {mounts: [DIR/data/*]}").Replace(oneBackend))
	options := n.options()
	options.Timing.HostFiles = 50 * time.Millisecond
	n.startAgentWith(options)
	n.wantCounts(gpu, 2, 2)
	n.wantResolves("mock-0", "mock-1")

	link(".ssh")
	n.wantCounts(gpu, 1, 1)
	n.wantProblem("mock-0", n.path("data", "link"), "leads to", n.path(".ssh"))
	n.wantResolves("mock-1")

	link("good")
	n.wantCounts(gpu, 2, 2)
	n.wantResolves("mock-0", "mock-1")
}

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
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
		"recovery: {delay: 0s}", "recovery: {delay: 0s}\n        allow: {mounts: [DIR/data/*, DIR/good]}", "{name: example.com/gpu}", resource).Replace(oneBackend))
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

// A definition that a container has is not written again, after its file was removed, if it would
// give something else by then. Status has why; the definition is back when it is allowed again.
func TestLinkLeadsElsewhereWhenTheSpecIsRemoved(t *testing.T) {
	t.Parallel()
	n, link := linkNode(t, "{name: example.com/gpu}", time.Hour)
	n.allocate("pod", gpu, 2)
	link(".ssh")
	spec := filepath.Join("cdi", "accelmux-mock-gpu.json")
	n.remove(spec)
	n.wantProblem("backend mock", "mock-0", "CDI device mock.accelmux.io/gpu=mock-0", "cannot restart", n.path("data", "link"), "leads to", n.path(".ssh"))
	n.wantResolves("mock-1")
	if defined := n.definitions("mock", "gpu"); len(defined) != 1 {
		t.Errorf("defined are %v", defined)
	}
	link("good")
	n.remove(spec)
	n.eventually("both are defined", func() bool { return len(n.definitions("mock", "gpu")) == 2 })
	n.wantResolves("mock-0", "mock-1")
	n.eventually("the problem is gone", func() bool { return !strings.Contains(n.problems(), "cannot restart") })
}

// What the record has of a claim is written after a restart, or after its file was removed, if it is still
// allowed, though the backend does not run; otherwise status has the claim, what is not allowed and what to do.
func TestStoredClaimIsNoLongerAllowed(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(strings.Replace(oneBackend, "recovery: {delay: 0s}", "recovery: {delay: 0s}\n        command: missing\n        allow: {mounts: [DIR/good]}", 1))
	book, err := holders.Open(holders.Options{
		Path: n.path("state", "usage"), BootID: firstBoot, Kubelet: podresources.New(podresources.Options{Socket: n.path("nowhere")}),
		Resolve: func(string, string) (inventory.Key, bool) { return inventory.Key{}, false },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"good", "bad"} {
		key := inventory.Key{Backend: "mock", ID: "mock-" + name}
		if err := errors.Join(os.Mkdir(n.path(name), 0o755), book.Claims().Put(&holders.ClaimRecord{
			Claim:    holders.Claim{Driver: "mock.accelmux.io", UID: types.UID(name), Namespace: "default", Name: name},
			Prepared: true, BootID: firstBoot,
			Devices: []holders.ClaimDevice{{
				Request: "gpu", Pool: "node-1", Name: key.ID, Backend: key.Backend, ID: key.ID, CDI: cdi.ClaimName(key, name),
				Edits: fmt.Appendf(nil, `{"mounts":[{"hostPath":%q,"containerPath":"/data","options":["rbind","ro","rprivate"]}]}`, n.path(name)),
			}},
		})); err != nil {
			t.Fatal(err)
		}
	}
	n.startAgent()
	n.wantProblem("claim default/bad", "cannot restart", "device mock/mock-bad", "allow: {mounts: ["+n.path("bad")+"]}")
	if defined := n.definitions("mock", "holder"); len(defined) != 1 || defined["mock-good::good"] == "" {
		t.Errorf("defined are %v", defined)
	}
	if text := n.problems(); strings.Contains(text, "claim default/good") {
		t.Error(text)
	}
	if err := errors.Join(os.Remove(n.path("good")), os.Symlink(n.path("bad"), n.path("good"))); err != nil {
		t.Fatal(err)
	}
	n.remove(filepath.Join("cdi", "accelmux-mock-holder.json"))
	n.wantProblem("mock-good", "containers of claim default/good that have it cannot restart", "leads to", n.path("bad"))
	if defined := n.definitions("mock", "holder"); len(defined) != 0 {
		t.Errorf("defined are %v", defined)
	}
}

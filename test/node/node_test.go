package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	// nodeName is what node.sh calls the node.
	nodeName = "node"
	// patience bounds every wait of a test. On a quiet machine none takes ten seconds,
	// and nobody waits for the rest; one that is ten times slower needs it.
	patience = 5 * time.Minute
	// askLimit bounds one question of those that are asked again and again.
	askLimit = 20 * time.Second

	podResources    = "/var/lib/kubelet/pod-resources/kubelet.sock"
	devicePluginDir = "/var/lib/kubelet/device-plugins"
	cdiDir          = "/var/run/cdi"
	stateDir        = "/var/lib/accelmux"
	// playDir is mounted into the agent's pod: the mock's scenario is in it.
	playDir = "/run/play"
)

// node is the node in the hands of one test.
type node struct {
	*testing.T
	// kubelet answers what its device manager knows.
	kubelet podresources.PodResourcesListerClient
	// began is when the test did, in whole seconds as in Events.
	began time.Time
	// installed says that the chart is.
	installed bool
}

// begin takes the node. When the test ends, what it made is taken away, and the
// node is as new; what helps to understand a failure is shown.
func begin(t *testing.T) *node {
	t.Helper()
	n := &node{T: t, kubelet: dialPodResources(t)}
	start := time.Now()
	n.began = start.Truncate(time.Second)
	t.Cleanup(func() {
		took = append(took, fmt.Sprintf("%6.1fs %s", time.Since(start).Seconds(), t.Name()))
	})
	// What a run that was interrupted left on a node that stays up.
	n.clean()
	t.Cleanup(func() {
		if t.Failed() {
			n.dump()
		}
		n.clean()
	})
	if err := os.MkdirAll(playDir, 0o755); err != nil {
		t.Fatal(err)
	}
	return n
}

// clean makes the node as new.
func (n *node) clean() {
	n.Helper()
	n.settle()
	n.deletePods()
	n.uninstall()
	n.label("")
	for _, dir := range []string{stateDir, cdiDir, playDir} {
		if err := empty(dir); err != nil {
			n.Error(err)
		}
	}
}

// soon is a context that bounds one wait, also in a cleanup.
func (n *node) soon() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	n.Cleanup(cancel)
	return ctx
}

// eventually waits for something that nobody reports; it returns how long that
// took.
func (n *node) eventually(what string, condition func() bool) time.Duration {
	n.Helper()
	start := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Since(start) > patience {
			n.Fatalf("%s: not within %v", what, patience)
		}
		<-tick.C
	}
	return time.Since(start)
}

// counts is what node.status says of a resource.
type counts struct{ capacity, allocatable int64 }

func countsOf(object *v1.Node, resource string) counts {
	capacity := object.Status.Capacity[v1.ResourceName(resource)]
	allocatable := object.Status.Allocatable[v1.ResourceName(resource)]
	return counts{capacity.Value(), allocatable.Value()}
}

// wantCounts waits until node.status says so, and returns how long it took.
func (n *node) wantCounts(resource string, capacity, allocatable int64) time.Duration {
	n.Helper()
	start, want := time.Now(), counts{capacity, allocatable}
	var last counts
	_, err := until(n.soon(), client.CoreV1().Nodes(), fields.OneTermEqualSelector("metadata.name", nodeName),
		func(object *v1.Node) bool {
			last = countsOf(object, resource)
			return last == want
		})
	if err != nil {
		n.Fatalf("capacity and allocatable of %s are %v, not %v: %v", resource, last, want, err)
	}
	return time.Since(start)
}

// label gives the node the label that chooses the profile; "" takes it away.
func (n *node) label(value string) {
	n.Helper()
	text := "null"
	if value != "" {
		text = fmt.Sprintf("%q", value)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{"example.com/accelerator":%s}}}`, text)
	_, err := client.CoreV1().Nodes().Patch(n.soon(), nodeName, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		n.Fatalf("label the node: %v", err)
	}
}

// service starts, stops or kills one of the node's programs.
func (n *node) service(verb string, names ...string) {
	n.Helper()
	n.must(filepath.Join(scripts, "service.sh"), append([]string{verb}, names...)...)
}

// must runs a program and returns what it printed.
func (n *node) must(name string, args ...string) string {
	n.Helper()
	out, err := run(n.soon(), name, args...)
	if err != nil {
		n.Fatal(err)
	}
	return out
}

// run returns what the program printed to stdout; the error has all that it
// printed.
func run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = askLimit // it bounds, too, how late the end of the output is seen
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(name), strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

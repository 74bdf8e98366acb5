package kubelet

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestKubeletRestarts verifies that a restart of kubelet, its checkpoint kept, is an event, the
// twentieth as the first: the agent registers again when kubelet's new socket comes, not only at a
// check a second later; a pod keeps its devices, and its container is given them when it starts
// again; and no other pod gets them.
func TestKubeletRestarts(t *testing.T) {
	n := start(t, mock{Count: 4, NUMANodes: 2}, 4)
	pod := n.admit("holder", gpu, 2)
	n.startContainer(pod)
	before := n.held(pod, gpu)
	var times []time.Duration
	for range 20 {
		times = append(times, n.restartKubelet(gpu, 4))
		if got := n.held(pod, gpu); !slices.Equal(got, before) {
			t.Fatalf("the pod held %v and now holds %v", before, got)
		}
	}
	slices.Sort(times)
	median, slowest := times[len(times)/2], times[len(times)-1]
	t.Logf("capacity back after 20 restarts: median %v, slowest %v", median.Round(time.Millisecond), slowest.Round(time.Millisecond))
	// On a machine that stands still for a moment a check may come before the event.
	if events := strings.Count(n.agent.Log(), `noticed_by=event`); events < 10 {
		t.Errorf("%d restarts of 20 were noticed by an event", events)
	}
	for _, id := range n.held(n.admit("after", gpu, 2), gpu) {
		if slices.Contains(before, id) {
			t.Errorf("%s was given to a second pod", id)
		}
	}
	n.wantInjected(n.cdiNames(n.startContainer(pod)), before)
}

// ends are the ways an agent goes.
var ends = map[string]func(*node) error{
	"SIGTERM": func(n *node) error { _, err := n.agent.Stop(); return err },
	"SIGKILL": func(n *node) error { return n.agent.Kill() },
}

// TestAgentRestart verifies what a restart of the agent costs: no device is
// allocatable while it is away, nothing is lost when it is back, and a fault
// that nobody has seen end is still there.
func TestAgentRestart(t *testing.T) {
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			n := start(t, mock{Count: 4}, 4)
			pod := n.admit("holder", gpu, 1)
			names := n.cdiNames(n.startContainer(pod))
			held := n.held(pod, gpu)
			sick := n.other(held)
			n.play(fault(sick, "broken", "reboot"))
			n.wantCounts(gpu, 4, 3)
			// Kubelet is told of a fault before it is written down.
			n.eventually("the fault is on disk", func() bool {
				state, err := os.ReadFile(filepath.Join(n.agent.StateDir(), "health"))
				return err == nil && bytes.Contains(state, []byte(sick))
			})
			// The backend's next process has seen nothing.
			n.play()
			if err := end(n); err != nil {
				t.Fatal(err)
			}
			n.wantCounts(gpu, 4, 0)
			if err := n.inject(names); err != nil {
				t.Errorf("the running pod's devices while the agent is away: %v", err)
			}
			n.startAgent()
			t.Logf("healthy devices are back %v after the start", n.wantCounts(gpu, 4, 3).Round(time.Millisecond))
			if slices.Contains(n.kubelet.Healthy(gpu), sick) {
				t.Errorf("%s is healthy after the restart; nobody has seen its fault end", sick)
			}
			if got := n.held(pod, gpu); !slices.Equal(got, held) {
				t.Errorf("the pod held %v and now holds %v", held, got)
			}
			n.play(recovered(sick))
			n.wantCounts(gpu, 4, 4)
		})
	}
}

// other is a healthy device that is not among the given ones.
func (n *node) other(ids []string) string {
	n.Helper()
	for _, id := range n.kubelet.Healthy(gpu) {
		if !slices.Contains(ids, id) {
			return id
		}
	}
	n.Fatalf("no healthy device beside %v", ids)
	return ""
}

// cdiNames are the names that a runtime injects: those of the field made for them
// and those of the annotations, each once.
func (n *node) cdiNames(opts *realkubelet.ContainerOptions) []string {
	n.Helper()
	var names []string
	for _, d := range opts.CDIDevices {
		names = append(names, d.Name)
	}
	for _, name := range n.annotated(opts) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// annotated are the CDI names in annotations, each once: kubelet may have made some of
// its own.
func (n *node) annotated(opts *realkubelet.ContainerOptions) []string {
	n.Helper()
	annotations := map[string]string{}
	for _, a := range opts.Annotations {
		annotations[a.Name] = a.Value
	}
	_, names, err := cdi.ParseAnnotations(annotations)
	if err != nil {
		n.Fatalf("annotations %v: %v", annotations, err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

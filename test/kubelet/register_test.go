package kubelet

import (
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// TestPluginWatcher verifies registration through plugins_registry: kubelet
// finds the socket by itself, finds it again after its restart, and finds the
// next one after the agent's.
func TestPluginWatcher(t *testing.T) {
	n := newNode(t, realkubelet.Options{})
	n.startKubelet()
	c := mock{Count: 4}.config(n)
	c.Resources[0].Registration = "watcher"
	n.configure(c)
	n.startAgent()
	t.Logf("capacity %v after the start of the agent", n.wantCounts(gpu, 4, 4).Round(time.Millisecond))
	pod := n.admit("holder", gpu, 1)
	if _, err := n.kubelet.StartContainer(n.soon(), pod, "c"); err != nil {
		t.Fatal(err)
	}
	t.Logf("capacity %v after kubelet's restart", n.restartKubelet(gpu, 4).Round(time.Millisecond))
	for _, end := range ends {
		if err := end(n); err != nil {
			t.Fatal(err)
		}
		n.wantCounts(gpu, 4, 0)
		n.startAgent()
		n.wantCounts(gpu, 4, 4)
	}
	if got := n.held(pod, gpu); len(got) != 1 {
		t.Errorf("the pod holds %v; want its one device", got)
	}
}

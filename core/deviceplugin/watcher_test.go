package deviceplugin

import (
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/resource"
)

func watched(r *resource.Resource) { r.Registration = config.RegisterWatcher }

// Kubelet finds the socket by itself, and again after its restarts: the file is
// the same all the time.
func TestWatcherSurvivesRestarts(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table(gpus(2), watched), allNames{})
	n.waitAllocatable(2)
	socket := n.kubelet.State().Resources[gpu].Socket
	if filepath.Dir(socket) != n.kubelet.RegistryDir() || filepath.Base(socket)[0] == '.' {
		t.Errorf("the socket is %s", socket)
	}
	for range 10 {
		if err := n.kubelet.Restart(); err != nil {
			t.Fatal(err)
		}
		n.waitAllocatable(2)
		if got := n.kubelet.State().Resources[gpu].Socket; got != socket {
			t.Fatalf("the socket is now %s", got)
		}
	}
	if c := n.kubelet.State().Counts; c.Registered != 11 {
		t.Errorf("registered %d times", c.Registered)
	}
}

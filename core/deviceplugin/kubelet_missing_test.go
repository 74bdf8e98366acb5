package deviceplugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/test/patience"
)

// Verifies that a kubelet that is absent for long is reported, with what is missing (the
// directory, or the socket in it) and what to check; and that its return is reported, also
// after the directory was created.
func TestKubeletMissing(t *testing.T) {
	for name, c := range map[string]struct {
		directory bool
		says      string
	}{
		"no directory": {false, "device-plugins does not exist: is it mounted here, and is --kubelet-dir right?"},
		"no socket":    {true, "kubelet.sock does not exist: does kubelet run, and is --kubelet-dir right?"},
	} {
		t.Run(name, func(t *testing.T) {
			timing := fast
			timing.Poll, timing.Patience = 5*time.Millisecond, 50*time.Millisecond
			n := newNode(t, timing, false)
			told := make(chan string, 16)
			n.plugin.watch.report = func(text string) { told <- text }
			next := func() string {
				select {
				case text := <-told:
					return text
				case <-time.After(patience.Long):
					t.Fatal("nothing is reported")
					return ""
				}
			}
			if c.directory {
				if err := os.MkdirAll(n.kubelet.PluginDir(), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			begun := time.Now()
			n.run()
			n.plugin.Publish(table(gpus(2), nil), allNames{})
			if text := next(); !strings.Contains(text, c.says) || n.plugin.Trouble() != text || time.Since(begun) < timing.Patience {
				t.Errorf("after %v: reported %q, Trouble returns %q", time.Since(begun), text, n.plugin.Trouble())
			}
			if !c.directory { // what is missing changes: the directory comes first
				if err := os.MkdirAll(n.kubelet.PluginDir(), 0o755); err != nil {
					t.Fatal(err)
				}
				if text := next(); !strings.Contains(text, "kubelet.sock") {
					t.Errorf("with the directory: %q", text)
				}
			}
			n.startKubelet()
			n.waitAllocatable(2)
			if text := next(); text != "" || n.plugin.Trouble() != "" {
				t.Errorf("with kubelet: %q, %q", text, n.plugin.Trouble())
			}
		})
	}
}

// Verifies that a missing plugins_registry is named, and found when it comes.
func TestRegistryMissing(t *testing.T) {
	n := newNode(t, fast, false)
	n.startKubelet()
	away := filepath.Join(n.dir, "away")
	if err := os.Rename(n.kubelet.RegistryDir(), away); err != nil {
		t.Fatal(err)
	}
	n.run()
	n.plugin.Publish(table(gpus(2), func(r *resource.Resource) { r.Registration = config.RegisterWatcher }), allNames{})
	patience.Until(t, "its status says what is missing", func() bool {
		all := n.plugin.Status()
		return len(all) == 1 && strings.Contains(all[0].Error, "plugins_registry does not exist: is it mounted here")
	})
	if err := os.Rename(away, n.kubelet.RegistryDir()); err != nil {
		t.Fatal(err)
	}
	n.waitAllocatable(2)
}

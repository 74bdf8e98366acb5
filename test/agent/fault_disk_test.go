package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/podresources"
)

// persistent agents try soon again what the disk did not take.
func persistent(options *agent.Options) {
	options.Timing.CDI = cdi.Timing{RetryMin: 50 * time.Millisecond, RetryMax: 200 * time.Millisecond, Poll: 100 * time.Millisecond}
	options.Timing.Usage = podresources.Timing{
		Quiet: time.Millisecond, Grace: time.Second, Unseen: time.Second, RetryMin: 50 * time.Millisecond, RetryMax: 200 * time.Millisecond,
	}
}

// wantResolves fails unless a container runtime finds the device.
func (n *node) wantResolves(devices ...string) {
	n.Helper()
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(n.path("cdi")), cdilib.WithAutoRefresh(false))
	if err != nil {
		n.Fatal(err)
	}
	for _, id := range devices {
		if cache.GetDevice("mock.accelmux.io/gpu="+id) == nil {
			n.Errorf("%s is not defined: %v", id, cache.GetErrors())
		}
	}
}

// A CDI name that a container holds is defined again also by a later agent whose
// configuration does not have the backend any more: kubelet gives a container that restarts
// the name that it got first. Without a holder the definition goes.
func TestCDIDirectoryDeletedAfterTheBackendWasRemoved(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, persistent)
	held := n.allocate("pod", gpu, 1)
	n.stopAgent()
	n.configure(strings.Replace(oneBackend, "name: mock\n", "name: other\n        command: accelmux-backend-mock\n", 1))
	options := n.options()
	quickUsage(&options)
	n.startAgentWith(options)
	n.eventually("the other backend's specs are there", func() bool { return len(n.definitions("other", "gpu")) == 4 })
	// The agent may be writing in it.
	n.eventually("the directory is removed", func() bool { return os.RemoveAll(n.path("cdi")) == nil })
	n.eventually("the held definition is back", func() bool { return len(n.definitions("mock", "gpu")) == 1 })
	n.wantResolves(held...)
	n.kubelet.Free("pod")
	n.eventually("nothing is defined for the removed backend", func() bool { return len(n.definitions("mock", "gpu")) == 0 })
}

// A state file or a CDI spec that cannot be used costs what only it knew: the agent starts, says
// what is wrong with which file and where it is now, and serves.
func TestStateFile(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.scenario("devices: {mock-0: {fault: {code: x, recovery: reboot}}}")
	n.wantCounts(gpu, 4, 3)
	held := n.allocate("pod", gpu, 1)
	n.eventually("both are on disk", func() bool { return n.saved("health", "mock-0") && n.saved("usage", held[0]) })
	n.stopAgent()
	files := map[string]string{
		"state/health": "its content does not match its checksum", "state/usage": "its content does not match its checksum", "cdi/accelmux-mock-gpu.json": "",
	}
	for file := range files {
		info, err := os.Stat(n.path(file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(n.path(file), info.Size()-10); err != nil {
			t.Fatal(err)
		}
	}
	n.startAgent()
	n.wantCounts(gpu, 4, 3)
	for file, says := range files {
		n.wantProblem(file, says, filepath.Base(file)+".corrupt")
	}
	n.wantResolves(held...)
	n.allocate("after", gpu, 2)
}

// saved reports whether a state file has the text.
func (n *node) saved(file, text string) bool {
	content, err := os.ReadFile(n.path("state", file))
	return err == nil && strings.Contains(string(content), text)
}

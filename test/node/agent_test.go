package node

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/status"
)

// The agent is killed, and its pod is deleted. Kubelet then has no healthy devices
// until the next agent has registered, which is all the time for which allocatable
// may dip, and once; capacity never does. Running pods are left alone, and restarts
// of their containers find their devices.
func TestAgentKilled(t *testing.T) {
	n := begin(t)
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	pod := n.start("one", gpu, 2)
	held := n.held("one", gpu)
	for _, way := range []struct {
		name string
		end  func()
	}{
		{"killed", func() { n.kill("accelmux") }},
		{"deleted", func() { n.deletePod(n.agentPod()) }},
	} {
		before := n.report()
		w := n.watch(gpu)
		way.end()
		n.wantReport("another agent serves", func(now status.Report) bool {
			return !now.StartedAt.Equal(before.StartedAt) && len(now.NotReady) == 0
		})
		w.wantBack()
		t.Logf("the agent was %s:", way.name)
		w.wantDips(1)
	}
	n.wantUntouched(pod)
	n.restartContainer("one")
	if sees := n.inside("one"); !slices.Equal(sees.nodes, held) {
		t.Errorf("after the restart of its container the pod sees %v, and has %v", sees, held)
	}
}

// kill ends all processes of a program at once.
func (n *node) kill(program string) {
	n.Helper()
	killed := 0
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		n.Fatal(err)
	}
	for _, name := range names {
		line, _ := os.ReadFile(name) // the process may have ended
		first, rest, _ := bytes.Cut(line, []byte{0})
		if filepath.Base(string(first)) != program || bytes.HasPrefix(rest, []byte("status")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			n.Fatal(err)
		}
		switch err := syscall.Kill(pid, syscall.SIGKILL); {
		case errors.Is(err, syscall.ESRCH): // it has ended by itself, such as a probe
			continue
		case err != nil:
			n.Fatalf("kill %s: %v", program, err)
		}
		killed++
	}
	if killed == 0 {
		n.Fatalf("no process of %s", program)
	}
}

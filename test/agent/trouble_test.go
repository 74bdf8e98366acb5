package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/events"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/test/patience"
)

// A kubelet that is absent for long is a problem in status, an Event on the Node and a metric, which say whether the
// directory or the socket is missing, and the Node's condition is false; all four change when it comes. When the agent
// ends, the condition is unknown.
func TestKubeletMissing(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", map[string]string{})
	n := newNode(t)
	n.configure(oneBackend)
	options := n.inCluster(server)
	withMetrics(&options)
	options.Timing.Plugin.Patience = 100 * time.Millisecond
	options.Timing.Plugin.Poll = 50 * time.Millisecond
	options.NodeCondition = true
	options.Timing.Condition = condition.Timing{Spread: time.Millisecond, Poll: 50 * time.Millisecond, Settle: time.Millisecond, Stop: patience.Long}
	wantCondition := func(status corev1.ConditionStatus, reason, message string) {
		t.Helper()
		n.eventually("the condition is "+string(status), func() bool {
			c := server.Condition(condition.Type)
			return c.Status == status && c.Reason == reason && strings.Contains(c.Message, message)
		})
	}
	n.startAgentWith(options)
	const says = "device-plugins does not exist: is it mounted here, and is --kubelet-dir right?"
	n.wantProblem(says)
	n.wantEvent(server, events.KubeletMissing, says)
	n.wantMetrics("accelmux_kubelet_missing 1", "accelmux_ready 0")
	wantCondition(corev1.ConditionFalse, condition.NotReady, "not ready: ")
	n.eventually("the backend has reported", func() bool { return n.backend("mock").Devices == 4 })
	if _, errs, code := accelmux(t, "status", "--ready", "--run-dir", n.path("run")); code != 1 || !strings.Contains(errs, "kubelet has not accepted resource example.com/gpu") {
		t.Errorf("status --ready: exit %d, %s", code, errs)
	}
	n.startKubelet()
	n.wantCounts(gpu, 4, 4)
	n.wantEvent(server, events.KubeletFound, "kubelet is there")
	n.wantMetrics("accelmux_kubelet_missing 0", "accelmux_ready 1", "accelmux_problems 0")
	if out, errs, code := accelmux(t, "status", "--ready", "--run-dir", n.path("run")); code != 0 || out != "ready\n" {
		t.Errorf("status --ready: exit %d, %s%s", code, out, errs)
	}
	wantCondition(corev1.ConditionTrue, condition.Serving, "ready")
	n.stopAgent()
	wantCondition(corev1.ConditionUnknown, condition.AgentStopped, "ended")
}

// The real program ends by SIGTERM and leaves nothing: no process, no
// socket, no spec of an unused device, no temporary file. What a pod holds stays
// defined.
func TestSIGTERMLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"nothing held": false, "a device held": true} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.startKubelet()
			n.configure(oneBackend)
			p := n.startProgram("run")
			n.wantCounts(gpu, 4, 4)
			if held {
				n.allocate("pod", gpu, 1)
			}
			backends := children(t, p.pid())
			if len(backends) == 0 {
				t.Fatal("the agent has no backend process")
			}
			if p.signal(unix.SIGTERM); p.err != nil {
				t.Errorf("exit: %v", p.err)
			}
			for _, pid := range backends {
				if _, err := os.Stat(filepath.Join("/proc", pid)); err == nil {
					t.Errorf("backend process %s is left", pid)
				}
			}
			if held {
				specs, err := filepath.Glob(n.path("cdi", "*.json"))
				if err != nil || len(specs) != 1 {
					t.Errorf("CDI specs %v %v, want the one of the held device", specs, err)
				}
				return
			}
			n.wantNothingLeft()
		})
	}
}

// children are the process IDs of a process's children (proc(5)).
func children(t *testing.T, pid int) []string {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			continue // the thread is gone
		}
		all = append(all, strings.Fields(string(text))...)
	}
	return all
}

// wantNothingLeft fails if a stopped agent left a socket, a spec or a temporary
// file.
func (n *node) wantNothingLeft() {
	n.Helper()
	allowed := []string{"state/devices", "state/health", "state/health.reserve", "state/usage", "state/lock", "state/standby.lock", "state/profile", "run/run.lock"}
	for _, root := range []string{"cdi", "state", "run", "kubelet/device-plugins", "kubelet/plugins_registry"} {
		err := filepath.WalkDir(n.path(root), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			relative, err := filepath.Rel(n.dir, path)
			if err == nil && !slices.Contains(allowed, relative) && !strings.HasSuffix(path, "kubelet.sock") {
				n.Errorf("left behind: %s", relative)
			}
			return err
		})
		if err != nil {
			n.Error(err)
		}
	}
}

package agent

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/patience"
)

const deployPrefix = "nvidia.com/gpu.deploy."

// operatorLabels are those of a GPU node with GPU Operator 26.7 whose device plugin is off, as accelmux takes its place;
// more changes some, and "" removes one.
func operatorLabels(more map[string]string) map[string]string {
	all := map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/mig.config": "all-1g.10gb"}
	operands := map[string]string{
		"device-plugin": "false", "gpu-feature-discovery": "true", "dcgm": "true", "dcgm-exporter": "true", "client": "true",
		"operator-validator": "true", "container-toolkit": "true", "mig-manager": "true", "driver": "true",
	}
	maps.Copy(operands, more)
	for name, value := range operands {
		if value != "" {
			all[deployPrefix+name] = value
		}
	}
	return all
}

// A tool changes the labels of the Node before and after it changes the driver, as its source does.
type tool struct {
	pause, resume func(value string) string
	// labels are those that it changes; of absent ones those in always.
	labels, always []string
}

// The tools: pkg/mig/reconfigure/reconfigure.go of mig-parted v0.14 and v0.15 (with client), and
// cmd/driver-manager/main.go of k8s-driver-manager v0.12.
var (
	oldMIGManager = tool{
		pause: unlessFalse("paused-for-mig-change"), resume: unlessFalse("true"),
		always: []string{"device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm"},
	}
	migManager    = tool{pause: oldMIGManager.pause, resume: oldMIGManager.resume, always: oldMIGManager.always, labels: []string{"client"}}
	driverManager = tool{
		pause: func(value string) string {
			switch value {
			case "false":
				return value
			case "true":
				return "paused-for-driver-upgrade"
			}
			return value + "_paused-for-driver-upgrade"
		},
		resume: func(value string) string {
			value = strings.TrimSuffix(strings.TrimSuffix(value, "paused-for-driver-upgrade"), "_")
			if value == "" {
				return "true"
			}
			return value
		},
		labels: []string{
			"operator-validator", "container-toolkit", "device-plugin", "gpu-feature-discovery", "dcgm-exporter", "dcgm", "nvsm", "client", "mig-manager",
		},
	}
)

func unlessFalse(to string) func(string) string {
	return func(value string) string {
		if value == "false" {
			return value
		}
		return to
	}
}

// change returns the labels after the tool has changed them.
func (tool tool) change(labels map[string]string, to func(string) string) map[string]string {
	labels = maps.Clone(labels)
	for _, name := range tool.labels {
		if value, ok := labels[deployPrefix+name]; ok {
			labels[deployPrefix+name] = to(value)
		}
	}
	for _, name := range tool.always {
		labels[deployPrefix+name] = to(labels[deployPrefix+name])
	}
	return labels
}

// client is the container of the chart's nvidiaClient: a tool waits for its end.
type client struct {
	*exec.Cmd
	stderr lockedBuffer
	ended  chan error
}

func (n *node) startClient() *client {
	n.Helper()
	c := &client{Cmd: exec.Command(filepath.Join(built.Dir(n.T), "accelmux"), "await-pause", "--run-dirs", n.dir, "nvidia"), ended: make(chan error, 1)}
	c.Stderr = &c.stderr
	if err := c.Start(); err != nil {
		n.Fatal(err)
	}
	go func() { c.ended <- c.Wait() }()
	n.Cleanup(func() { _ = c.Process.Kill() })
	n.eventually("the client runs", func() bool { return strings.Contains(c.stderr.String(), "after SIGTERM") })
	return c
}

// delete is what kubelet does to the container when its pod is deleted, as the DaemonSet's controller does when the label
// that selects nodes changes.
func (c *client) delete(n *node) {
	n.Helper()
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		n.Fatal(err)
	}
}

func (n *node) wantEnded(c *client) {
	n.Helper()
	select {
	case err := <-c.ended:
		if err != nil {
			n.Errorf("the client ended with %v: %s", err, c.stderr.String())
		}
	case <-time.After(patience.Long):
		n.Fatalf("the client does not end: %s", c.stderr.String())
	}
}

// The NVIDIA backend's process ends within 2 s after one of NVIDIA's tools has changed the labels of the Node, and the
// container for which the tool waits ends after it, not before. The GPUs stay, unhealthy with that reason, and are back
// when the labels are. Labels that are false stay false.
func TestNVIDIANodeTools(t *testing.T) {
	t.Parallel()
	server := clustertest.New(t, "node-1", operatorLabels(nil))
	n, _, options := newNVIDIA(t, 2)
	cluster := n.inCluster(server)
	options.Cluster, options.Timing.Selection, options.Timing.Events = cluster.Cluster, cluster.Timing.Selection, cluster.Timing.Events
	n.startAgentWith(options)
	n.wantCounts(nvidiaGPU, 2, 2)
	held := n.allocate("pod", nvidiaGPU, 1)[0]

	for _, step := range []struct {
		name   string
		tool   tool
		labels map[string]string
		// cause is the label that pauses the backend.
		cause string
	}{
		{"MIG", migManager, operatorLabels(nil), "client=paused-for-mig-change"},
		{"MIG with an old operator", oldMIGManager, operatorLabels(map[string]string{"client": ""}), "dcgm=paused-for-mig-change"},
		{"driver upgrade", driverManager, operatorLabels(nil), "client=paused-for-driver-upgrade"},
		{
			"driver upgrade where one label is not false", driverManager, operatorLabels(map[string]string{
				"gpu-feature-discovery": "false", "dcgm": "false", "dcgm-exporter": "lab", "client": "false", "operator-validator": "false",
				"container-toolkit": "false", "mig-manager": "false",
			}), "dcgm-exporter=lab_paused-for-driver-upgrade",
		},
	} {
		server.SetLabels(step.labels)
		c, pid := n.startClient(), n.backend("nvidia").PID
		paused := step.tool.change(step.labels, step.tool.pause)
		server.SetLabels(paused)
		c.delete(n)
		if !patience.Within(2*time.Second, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }) {
			t.Errorf("%s: the backend's process is there after 2 s", step.name)
		}
		n.wantEnded(c)
		n.wantCounts(nvidiaGPU, 2, 0)
		n.wantFault(held, "unread")
		n.wantProblem("nvidia", "paused", deployPrefix+step.cause)
		for label, value := range step.labels {
			if value == "false" && paused[label] != value {
				t.Errorf("%s: %s=%s", step.name, label, paused[label])
			}
		}

		server.SetLabels(step.tool.change(paused, step.tool.resume))
		n.wantCounts(nvidiaGPU, 2, 2)
		if b := n.backend("nvidia"); b.State != string(supervisor.Running) || b.Restarts != 0 || b.Paused != "" {
			t.Errorf("%s: afterwards the backend is %+v", step.name, b)
		}
	}

	// While the backend's process has not ended, the client waits.
	c, pid := n.startClient(), n.backend("nvidia").PID
	n.kill(pid, syscall.SIGSTOP)
	server.SetLabels(migManager.change(operatorLabels(nil), migManager.pause))
	c.delete(n)
	n.eventually("the client waits for the process", func() bool { return strings.Contains(c.stderr.String(), "backend nvidia is stopping") })
	n.kill(pid, syscall.SIGCONT)
	n.wantEnded(c)
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the client ended before the backend's process: %v", err)
	}
	server.SetLabels(operatorLabels(nil))
	n.wantCounts(nvidiaGPU, 2, 2)

	// Where all labels are false, no tool changes one: the backend goes on, and a client that is deleted waits for the agent.
	none := operatorLabels(map[string]string{
		"gpu-feature-discovery": "false", "dcgm": "false", "dcgm-exporter": "false", "client": "false", "operator-validator": "false",
		"container-toolkit": "false", "mig-manager": "false",
	})
	if paused := driverManager.change(none, driverManager.pause); !maps.Equal(paused, none) {
		t.Errorf("labels that are false become %v", paused)
	}
	pid = n.backend("nvidia").PID
	server.SetLabels(none)
	c = n.startClient()
	c.delete(n)
	n.eventually("the client waits", func() bool { return strings.Contains(c.stderr.String(), "backend nvidia is running") })
	if b := n.backend("nvidia"); b.PID != pid {
		t.Errorf("the backend was ended: %+v", b)
	}
	n.stopAgent()
	n.wantEnded(c)
}

package deployments

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// node is a directory that stands for a container's root.
type node struct {
	root string
	t    *testing.T
}

// at moves an absolute path, or one in a flag, below the root.
func (n node) at(arg string) string {
	flag, path, ok := strings.Cut(arg, "=")
	switch {
	case ok && strings.HasPrefix(path, "/"):
		return flag + "=" + filepath.Join(n.root, path)
	case strings.HasPrefix(arg, "/"):
		return filepath.Join(n.root, arg)
	}
	return strings.ReplaceAll(arg, "$(NODE_NAME)", "node-1")
}

// configure does what kubelet does with a ConfigMap: the files are in a directory
// of their own, and a link to it is switched.
func (n node) configure(dir string, data map[string]string) {
	n.t.Helper()
	dir = n.at(dir)
	version, err := os.MkdirTemp(dir, "..version")
	if err != nil {
		n.t.Fatal(err)
	}
	for name, text := range data {
		if err := os.WriteFile(filepath.Join(version, name), []byte(text), 0o644); err != nil {
			n.t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !os.IsExist(err) {
			n.t.Fatal(err)
		}
	}
	next := filepath.Join(dir, "..data_tmp")
	if err := os.Symlink(filepath.Base(version), next); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
		n.t.Fatal(err)
	}
}

// command is a command of the container, moved below the root.
func (n node) command(ctx context.Context, args []string) *exec.Cmd {
	moved := make([]string, len(args))
	for i, arg := range args {
		moved[i] = n.at(arg)
	}
	return exec.CommandContext(ctx, moved[0], moved[1:]...)
}

// status is what the agent says of itself.
func (n node) status(ctx context.Context) (report struct {
	Node      string
	Config    struct{ Profile string }
	Backends  []struct{ Name, State string }
	Resources []struct{ Name string }
}, err error) {
	out, err := n.command(ctx, []string{"/usr/bin/accelmux", "status", "--run-dir=/run/accelmux", "--output=json"}).Output()
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	return report, err
}

// TestAgentRunsAsInThePod verifies that the agent starts with exactly what the
// DaemonSet gives it, that the probes say so, that it follows the ConfigMap's
// switch, and that it ends in time.
func TestAgentRunsAsInThePod(t *testing.T) {
	objects := render(t, mockValues...)
	container := agentContainer(t, objects)
	// The sockets' paths must be short.
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := node{dir, t}
	for _, mount := range container.VolumeMounts {
		if err := os.MkdirAll(n.at(mount.MountPath), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"/usr/bin/accelmux", "/usr/libexec/accelmux/accelmux-backend-mock"} {
		if err := os.MkdirAll(filepath.Dir(n.at(program)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(bin, filepath.Base(program)), n.at(program)); err != nil {
			t.Fatal(err)
		}
	}
	config := only[*corev1.ConfigMap](t, objects).Data
	n.configure("/etc/accelmux", config)

	// Seconds on a quiet machine.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	var log strings.Builder
	agent := n.command(ctx, append(container.Command, container.Args...))
	agent.Stdout, agent.Stderr = &log, &log
	agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGTERM) }
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }()
	stop := func() error {
		_ = agent.Process.Signal(syscall.SIGTERM)
		return <-ended
	}
	until := func(what string, done func() bool) {
		t.Helper()
		for tick := time.NewTicker(100 * time.Millisecond); !done(); {
			select {
			case <-tick.C:
			case err := <-ended:
				t.Fatalf("%s: the agent ended with %v; its log:\n%s", what, err, &log)
			case <-ctx.Done():
				_ = stop()
				t.Fatalf("%s: not in time; the agent's log:\n%s", what, &log)
			}
		}
	}

	for _, alive := range [][]string{container.StartupProbe.Exec.Command, container.LivenessProbe.Exec.Command} {
		until("probe", func() bool { return n.command(ctx, alive).Run() == nil })
	}
	// There is no kubelet here, so the agent is alive and never ready.
	until("the readiness probe says what is missing", func() bool {
		said, err := n.command(ctx, container.ReadinessProbe.Exec.Command).CombinedOutput()
		return err != nil && strings.Contains(string(said), "kubelet has not accepted resource example.com/gpu yet")
	})
	until("the backend runs on node-1 with profile default", func() bool {
		report, err := n.status(ctx)
		return err == nil && report.Node == "node-1" && report.Config.Profile == "default" &&
			len(report.Backends) == 1 && report.Backends[0].State == "running"
	})
	config["node.yaml"] = strings.ReplaceAll(config["node.yaml"], "example.com/gpu", "example.com/other")
	n.configure("/etc/accelmux", config)
	until("the new configuration", func() bool {
		report, err := n.status(ctx)
		return err == nil && slices.ContainsFunc(report.Resources, func(r struct{ Name string }) bool { return r.Name == "example.com/other" })
	})

	asked := time.Now()
	if err := stop(); err != nil {
		t.Errorf("told to stop, the agent ended with %v:\n%s", err, &log)
	}
	took, grace := time.Since(asked), *only[*appsv1.DaemonSet](t, objects).Spec.Template.Spec.TerminationGracePeriodSeconds
	t.Logf("it took %v to stop", took.Round(time.Millisecond))
	if took > time.Duration(grace)*time.Second {
		t.Errorf("it took %s to stop, more than the pod's grace period of %d s", took, grace)
	}
}

package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// demoNode is a configuration with devices that can do what the commands of the demo ask
// for, or fail at it.
const demoNode = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: demo
    backends:
      - name: mock
        settings:
          scenarioFile: DIR/scenario.yaml
          devices:
            - {count: 2, hooks: [prepare, release]}
            - {count: 1, id: broken, model: Broken, hooks: [prepare], prepare: {error: the fan is stuck}}
        recovery: {delay: 0s}
      - name: other
        command: accelmux-backend-mock
        settings: {count: 1, id: shared, hooks: [release], release: {error: the valve is stuck}}
    resources:
      - name: example.com/broken
        selector: device.attributes["mock"].model == "Broken"
        backend: mock
      - name: example.com/gpu
        backend: mock
        parameters: {message: {annotation: example.com/message}}
      - name: example.com/shared
        backend: other
        replicas: 2
`

// Verifies the commands of `accelmux demo --config`, from a pipe: what each prints, and the
// exit status.
func TestDemoCommands(t *testing.T) {
	t.Parallel()
	built.Dir(t) // before TMPDIR is another
	node := t.TempDir()
	if err := os.WriteFile(filepath.Join(node, "node.yaml"), []byte(strings.ReplaceAll(demoNode, "DIR", node)), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []struct{ command, want string }{
		{"devices", "example.com/shared  shared::0  healthy"},
		{"help", "free POD"},
		{"alloc example.com/gpu 2 message=hello", "env        ACCELMUX_MOCK_MESSAGE=hello"},
		{"devices", "mock-0     healthy  -     pod-1"},
		{"alloc example.com/gpu 1", "error: allocate devices: requested number of devices unavailable"},
		{"alloc example.com/gpu 1 mesage=hello", `error: resource example.com/gpu has no parameter "mesage" in the configuration file; it has: message`},
		{"alloc example.com/gpu none", `error: "none" is not a number of devices`},
		{"alloc example.com/gpus 1", `did you mean "example.com/gpu"?`},
		{"alloc", "error: usage: `alloc RESOURCE N"},
		{"alloc example.com/broken 1", "the fan is stuck; `start pod-2` tries again, as kubelet does, and `free pod-2` ends the pod"},
		{"free pod-2", "broken is released"},
		{"fail mock-1 xid-79", "device mock-1 is unhealthy"},
		{"status", "xid-79"},
		{"heal", "device mock-1 is healthy"},
		{"fail mock-1 a/b", "error: \"a/b\" is not a fault code"},
		{"fail shared::0", "error: device shared of backend other: its health cannot be changed here"},
		{"alloc example.com/shared 1", "pod pod-3 gets shared::"},
		{"alloc example.com/shared 1", "pod pod-4 gets shared::"},
		{"free pod-3", "error: device shared of backend other is not released: backend other: Release: release shared: the valve is stuck"},
		{"free pod-4", "error: device shared of backend other is not released: backend other: Release: release shared: the valve is stuck"},
		{"kill mock", "backend mock runs again as process"},
		{"restart kubelet", "example.com/gpu: 2 of 2 devices healthy"},
		{"start pod-1", "env        ACCELMUX_MOCK_MESSAGE=hello"},
		{"free pod-1", "mock-1 is released"},
		{"start pod-1", "error: no pod pod-1 holds devices; the pods that do are: none"},
		{"fre pod-1", `help, quit; did you mean "free"?`},
	}
	input, failures := "# a comment, and an empty line\n\n", 0
	for _, s := range steps {
		input += s.command + "\n"
	}
	out, errs, code := demoOf(t, node, input)
	blocks := strings.Split(out, "\n> ")[1:]
	for i, s := range steps {
		if i >= len(blocks) {
			t.Fatalf("%s: the demo ended before it", s.command)
		}
		got, found := strings.CutPrefix(blocks[i], s.command+"\n")
		if !found || !strings.Contains(got, s.want) {
			t.Errorf("%s printed\n%s\nwant %q", s.command, blocks[i], s.want)
		}
		if strings.Contains(got, "\n  error: ") || strings.HasPrefix(got, "  error: ") {
			failures++
		}
	}
	if want := "12 of 26 commands failed"; code != 1 || failures != 12 || !strings.Contains(errs, want) {
		t.Errorf("exit %d, %q, with %d errors, want exit 1 and %q; the demo printed\n%s", code, errs, failures, want, out)
	}
	if out, errs, code := demoOf(t, node, "devices\nalloc example.com/gpu 1\nquit\nnever read\n"); code != 0 || errs != "" ||
		strings.Contains(out, "never") || !strings.Contains(out, "is released") {
		t.Errorf("with quit, and a pod that is left: exit %d, %q, and printed\n%s", code, errs, out)
	}
}

// demoOf runs the demo with the configuration in that directory and the commands.
func demoOf(t *testing.T, node, commands string) (stdout, stderr string, code int) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	var out, errs strings.Builder
	demo := exec.CommandContext(t.Context(), filepath.Join(built.Dir(t), "accelmux"), "demo", "--config", filepath.Join(node, "node.yaml"), "--sysfs", filepath.Join(node, "sys"))
	demo.Stdin, demo.Stdout, demo.Stderr, demo.Env = strings.NewReader(commands), &out, &errs, append(os.Environ(), "TMPDIR="+tmp)
	if err := demo.Run(); err != nil && demo.ProcessState == nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v %v", left, err)
	}
	return out.String(), errs.String(), demo.ProcessState.ExitCode()
}

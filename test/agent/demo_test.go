package agent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/test/patience"
)

// demo is `accelmux demo` with a temporary directory of its own, that deep, in which it may leave
// nothing. At the end of the test it must have ended.
func demo(t *testing.T, below string, args ...string) (command *exec.Cmd, out, errs *lockedBuffer) {
	t.Helper()
	program := filepath.Join(built.Dir(t), "accelmux")
	top, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	tmp := top + below
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
			t.Errorf("left in the temporary directory: %v %v", left, err)
		}
		_ = os.RemoveAll(top)
	})
	command, out, errs = exec.CommandContext(t.Context(), program, append([]string{"demo"}, args...)...), &lockedBuffer{}, &lockedBuffer{}
	command.Stdout, command.Stderr, command.Env = out, errs, append(os.Environ(), "TMPDIR="+tmp)
	return command, out, errs
}

// The demo ends without input, succeeds in every step, for each of which it prints what it waits for and how far it
// is, and leaves nothing, also where TMPDIR is too long for sockets.
func TestDemo(t *testing.T) {
	t.Parallel()
	command, out, errs := demo(t, strings.Repeat("/deep", 20))
	if err := command.Run(); err != nil || strings.Count(out.String(), "\n  ok ") != 7 || strings.Contains(out.String(), "FAILED") ||
		strings.Count(out.String(), "\n  waiting up to 30s until ") != 7 || !strings.Contains(out.String(), "\nStep 7 of 7: ") {
		t.Errorf("%v\n%s%s", err, out, errs)
	}
}

// Ctrl-C ends the demo at once, with exit status 130 and without a trace; a closed terminal, too, with any status.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		interrupt(t, signal)
	}
}

func interrupt(t *testing.T, signal syscall.Signal) {
	t.Helper()
	command, out, _ := demo(t, "", "--watch")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the demo has begun", func() bool { return strings.Contains(out.String(), "devices healthy") })
	if err := syscall.Kill(-command.Process.Pid, signal); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience.Long, func() { _ = command.Process.Kill() })
	defer late.Stop()
	if err := command.Wait(); err != nil && command.ProcessState.ExitCode() != 130 && signal == syscall.SIGINT {
		t.Errorf("the demo ended with %v, want status 0 or 130", err)
	}
}

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
	dir := t.TempDir()
	config := filepath.Join(dir, "node.yaml")
	if err := os.WriteFile(config, bytes.ReplaceAll([]byte(demoNode), []byte("DIR"), []byte(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []struct{ command, want string }{
		{"help", "free POD"},
		{"alloc example.com/gpu 2 message=hello", "env        ACCELMUX_MOCK_MESSAGE=hello"},
		{"devices", "mock-0     healthy  -     pod-1"},
		{"alloc example.com/gpu 1", "error: allocate devices: requested number of devices unavailable"},
		{"alloc example.com/gpu 1 mesage=hello", `error: resource example.com/gpu has no parameter "mesage" in the configuration file; it has: message`},
		{"alloc example.com/broken 1", "the fan is stuck; `start pod-2` tries again, as kubelet does, and `free pod-2` ends the pod"},
		{"free pod-2", "broken is released"},
		{"fail mock-1 xid-79", "device mock-1 is unhealthy"},
		{"status", "xid-79"},
		{"heal", "device mock-1 is healthy"},
		{"fail shared::0", "error: device shared of backend other: its health cannot be changed here"},
		{"alloc example.com/shared 1", "pod pod-3 gets shared::"},
		{"free pod-3", "error: device shared of backend other is not released: backend other: Release: release shared: the valve is stuck"},
		{"kill mock", "backend mock runs again as process"},
		{"restart kubelet", "example.com/gpu: 2 of 2 devices healthy"},
		{"start pod-1", "env        ACCELMUX_MOCK_MESSAGE=hello"},
		{"free pod-1", "mock-1 is released"},
		{"start pod-1", "error: no pod pod-1 holds devices; the pods that do are: none"},
		{"fre pod-1", `no command "fre"; did you mean "free"?`},
	}
	input := "# a comment, and an empty line\n\n"
	for _, s := range steps {
		input += s.command + "\n"
	}
	if err := os.MkdirAll(filepath.Join(dir, "sys/bus"), 0o750); err != nil {
		t.Fatal(err)
	}
	command, out, errs := demo(t, "", "--config", config, "--sysfs", filepath.Join(dir, "sys"))
	command.Stdin = strings.NewReader(input)
	_ = command.Run()
	blocks := strings.Split(out.String(), "\n> ")[1:]
	for i, s := range steps {
		if i >= len(blocks) {
			t.Fatalf("%s: the demo ended before it", s.command)
		}
		if got, found := strings.CutPrefix(blocks[i], s.command+"\n"); !found || !strings.Contains(got, s.want) {
			t.Errorf("%s printed\n%s\nwant %q", s.command, blocks[i], s.want)
		}
	}
	if code, want := command.ProcessState.ExitCode(), "7 of 19 commands failed"; code != 1 || !strings.Contains(errs.String(), want) {
		t.Errorf("exit %d, %q, want exit 1 and %q; the demo printed\n%s", code, errs, want, out)
	}

	command, out, errs = demo(t, "", "--config", config, "--sysfs", filepath.Join(dir, "sys"))
	command.Stdin = strings.NewReader("alloc example.com/gpu 1\nquit\nnever read\n")
	if err := command.Run(); err != nil || errs.String() != "" || strings.Contains(out.String(), "never") || !strings.Contains(out.String(), "is released") {
		t.Errorf("with quit, and a pod that is left: %v, %q, and printed\n%s", err, errs, out)
	}
}

package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// accelmux runs the real program and returns what it printed and its exit status.
func accelmux(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(built.Dir(t), "accelmux"), args...)
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

// Verifies that a command that is used wrongly, or has no agent, fails with what to do instead,
// and prints nothing else.
func TestMistypedCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "node.yaml")
	for line, want := range map[string]string{
		"statsu":                    "status",
		"topology explian -n 2":     `did you mean "accelmux topology explain"?`,
		"run --confg x":             `did you mean "--config"?`,
		"status node-1":             `accelmux status takes no arguments, got "node-1"`,
		"status -o xml":             "table, json, yaml",
		"status --run-dir " + dir:   "accelmux run",
		"validate":                  "`accelmux validate FILE",
		"convert x":                 `accelmux convert: "x" is not a plugin`,
		"demo --backend-dir " + dir: "make build",
		"top -w --every 10ms":       "at least 1s",
		"run --log-level loud":      "debug, info, warn, error",
		"run --config ../../deployments/examples/mock.yaml --state-dir /sys/x --run-dir /sys/x": "run it as root, or name others",
		"run --config ../../deployments/examples/mock.yaml --state-dir /sys/x --sysfs sys":      `--sysfs is "sys": it must be an absolute path`,
		"run --config " + missing: missing + ": no such file or directory: write one, or name yours with --config",
	} {
		stdout, stderr, code := accelmux(t, strings.Fields(line)...)
		if code != 1 || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("accelmux %s: exit %d, printed %q and %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

// `accelmux devices` and `accelmux status` show the running agent, to people and
// to programs.
func TestAdminCommands(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	if _, err := n.kubelet.Allocate(t.Context(), "team/pod", "main", gpu, 1); err != nil {
		t.Fatal(err)
	}
	n.scenario(`devices: {mock-3: {fault: {code: xid-79, message: fell off the bus, recovery: reboot}}}`)
	n.wantFault("mock-3", "xid-79")

	table, _, code := accelmux(t, "devices", "--run-dir", n.path("run"))
	if code != 0 || !strings.Contains(table, "unhealthy: xid-79 (reboot)") || strings.Count(table, "\n") != 5 {
		t.Errorf("devices: exit %d, printed\n%s", code, table)
	}
	var devices []status.Device
	text, _, _ := accelmux(t, "devices", "-o", "json", "--run-dir", n.path("run"))
	if err := json.Unmarshal([]byte(text), &devices); err != nil || len(devices) != 4 || devices[3].Healthy {
		t.Errorf("devices -o json: %v, %d devices from\n%s", err, len(devices), text)
	}
	var report status.Report
	text, _, _ = accelmux(t, "status", "-o", "yaml", "--run-dir", n.path("run"))
	if err := yaml.UnmarshalStrict([]byte(text), &report); err != nil || report.Node != "node-1" || len(report.Backends) != 1 {
		t.Errorf("status -o yaml: %v, from\n%s", err, text)
	}
	table, _, code = accelmux(t, "status", "--run-dir", n.path("run"))
	if code != 0 || !strings.Contains(table, "3 of 4") || !strings.Contains(table, "fell off the bus") {
		t.Errorf("status: exit %d, printed\n%s", code, table)
	}
	info, err := os.Stat(n.path("run", status.SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the admin socket: %v %v, want mode 0600", info.Mode(), err)
	}
}

// `accelmux status --ready` fails, with what is missing, until every backend has
// reported and kubelet has every resource.
func TestReady(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.configure(oneBackend)
	n.startAgent()
	n.eventually("the backend has reported", func() bool { return n.backend("mock").Devices == 4 })
	if _, errs, code := accelmux(t, "status", "--ready", "--run-dir", n.path("run")); code != 1 || !strings.Contains(errs, "kubelet has not accepted resource example.com/gpu") {
		t.Errorf("without kubelet: exit %d, %s", code, errs)
	}
	n.startKubelet()
	n.wantCounts(gpu, 4, 4)
	n.eventually("ready", func() bool { return len(n.agent.Report().NotReady) == 0 && n.problems() == "" })
	if out, errs, code := accelmux(t, "status", "--ready", "--run-dir", n.path("run")); code != 0 || out != "ready\n" {
		t.Errorf("with kubelet: exit %d, %s%s", code, out, errs)
	}
}

// The examples that the project ships are valid.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	examples, err := filepath.Glob("../../deployments/examples/*.yaml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("examples: %v %v", examples, err)
	}
	for _, example := range examples {
		if out, errs, code := accelmux(t, "validate", example); code != 0 {
			t.Errorf("validate %s: exit %d\n%s%s", example, code, out, errs)
		}
	}
}

// The demo plays to its end by itself, succeeds in every step, and leaves no
// file and no process, also where TMPDIR is too long for sockets.
func TestDemo(t *testing.T) {
	built.Dir(t) // before TMPDIR is another
	for name, below := range map[string]string{"short": "", "deep": strings.Repeat("/deep", 20)} {
		t.Run(name, func(t *testing.T) {
			tmp, err := os.MkdirTemp("", "d")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(tmp) })
			if err := os.MkdirAll(tmp+below, 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("TMPDIR", tmp+below)
			out, errs, code := accelmux(t, "demo")
			if code != 0 || strings.Count(out, "\n  ok ") != 7 || strings.Contains(out, "FAILED") {
				t.Errorf("exit %d\n%s%s", code, out, errs)
			}
			if left, err := os.ReadDir(tmp + below); err != nil || len(left) != 0 {
				t.Errorf("left in the temporary directory: %v %v", left, err)
			}
		})
	}
}

// Ctrl-C ends the demo at once, with exit status 130 and without a trace.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	var out lockedBuffer
	command := exec.Command(filepath.Join(built.Dir(t), "accelmux"), "demo", "--watch")
	command.Stdout, command.Stderr = &out, &out
	command.Env = append(os.Environ(), "TMPDIR="+tmp)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	patience.Until(t, "the demo has begun", func() bool { return strings.Contains(out.String(), "devices healthy") })
	if err := syscall.Kill(-command.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 130) {
			t.Errorf("the demo ended with %v, want status 0 or 130", err)
		}
	case <-time.After(patience.Long):
		t.Fatal("the demo goes on after Ctrl-C")
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v %v; the demo printed\n%s", left, err, out.String())
	}
}

// Verifies that a demo whose output is closed, as by "| head", ends at once and leaves nothing
// behind.
func TestDemoUnread(t *testing.T) {
	t.Parallel()
	tmp, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	var errs strings.Builder
	command := exec.CommandContext(t.Context(), filepath.Join(built.Dir(t), "accelmux"), "demo")
	command.Stderr, command.Env = &errs, append(os.Environ(), "TMPDIR="+tmp)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && !strings.Contains(lines.Text(), "kubelet started"); {
	}
	_ = out.Close()
	var exit *exec.ExitError
	if err := command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(errs.String(), "write the demo's output") {
		t.Errorf("the demo ended with %v, and said %q", err, &errs)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left in the temporary directory: %v %v", left, err)
	}
}

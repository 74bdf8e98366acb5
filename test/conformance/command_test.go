package conformance

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/core/conformance"
	"github.com/accelmux/accelmux/test/hostile"
	"github.com/accelmux/accelmux/test/patience"
)

// command is accelmux check-backend, with a temporary directory of its own.
func command(t *testing.T, args ...string) (cmd *exec.Cmd, dir string) {
	t.Helper()
	cmd = exec.Command(filepath.Join(built.Dir(t), "accelmux"), append([]string{"check-backend"}, args...)...)
	dir = t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	return cmd, dir
}

// Verifies the errors of the command, its exit status and its JSON.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"/no/such/program"}, "program /no/such/program does not exist"},
		{[]string{"/bin/true"}, "/bin/true breaks 2 of "},
		{[]string{"--timeout", "1ms", "/bin/true"}, "the check took longer than --timeout 1ms"},
	} {
		cmd, _ := command(t, test.args...)
		if output, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(output), test.want) {
			t.Errorf("%q: %v, want %q:\n%s", test.args, err, test.want, output)
		}
	}
	cmd, _ := command(t, "-o", "json", "/bin/true")
	output, _ := cmd.Output()
	var report conformance.Report
	if err := json.Unmarshal(output, &report); err != nil || report.Failed() != 2 {
		t.Errorf("%v:\n%s", err, output)
	}
}

// Verifies that Ctrl-C ends the command, with what it started and its sockets.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	begun := filepath.Join(t.TempDir(), "begun")
	cmd, dir := command(t, "--env", hostile.MisdeedEnv+"=hangs-in-describe", "--env", hostile.BegunEnv+"="+begun,
		filepath.Join(built.Dir(t), "hostilebackend"))
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	patience.Until(t, "the backend hangs", func() bool { _, err := os.Stat(begun); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		t.Errorf("it says %q", lines.Text())
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 {
		t.Errorf("it ended with %v, want status 130", err)
	}
	if left := processes(begun); len(left) > 0 {
		t.Errorf("the processes %v live on", left)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left in its directory, %v", left, err)
	}
}

// processes are those with a text in their environment.
func processes(text string) []string {
	var found []string
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		if environment, err := os.ReadFile(path); err == nil && strings.Contains(string(environment), text) {
			found = append(found, path)
		}
	}
	return found
}

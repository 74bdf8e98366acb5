package conformance

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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

// Verifies that Ctrl-C ends the command, with what it started and its sockets.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	begun := filepath.Join(t.TempDir(), "begun")
	cmd, dir := command(t, "--env", hostile.MisdeedEnv+"=hangs-in-configure", "--env", hostile.BegunEnv+"="+begun,
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

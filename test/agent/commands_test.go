package agent

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/status"
)

// accelmux runs the real program and returns what it printed and its exit status.
func accelmux(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	command := exec.CommandContext(t.Context(), filepath.Join(built.Dir(t), "accelmux"), args...)
	command.Stdout, command.Stderr = &out, &errs
	if err := command.Run(); command.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// `accelmux devices` and `accelmux status` show the running agent, to people and
// to programs.
func TestAdminCommands(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	n.allocate("team/pod", gpu, 1)
	n.scenario(`devices: {mock-3: {fault: {code: xid-79, message: fell off the bus, recovery: reboot}}}`)
	n.wantFault("mock-3", "xid-79")

	table, _, code := accelmux(t, "devices", "--run-dir", n.path("run"))
	if code != 0 || !strings.Contains(table, "unhealthy: xid-79 (reboot)") || strings.Count(table, "\n") != 5 {
		t.Errorf("devices: exit %d, printed\n%s", code, table)
	}
	var report status.Report
	text, _, _ := accelmux(t, "status", "-o", "yaml", "--run-dir", n.path("run"))
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

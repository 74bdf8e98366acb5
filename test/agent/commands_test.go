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

// `accelmux validate` checks the settings of backends by the schemas of their programs, and names those whose
// program it cannot start.
func TestValidateSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.yaml")
	for settings, want := range map[string]string{
		"{name: nvidia, settings: {mig: {strategy: mixd}, rescna: 3s}}": "file:4:57: profiles[0].backends[0].settings.mig.strategy: must be one of none, single, mixed, dynamic, is \"mixd\"; did you mean \"mixed\"?\n" +
			"file:4:74: profiles[0].backends[0].settings.rescna: unknown field \"rescna\"; did you mean \"rescan\"?\n",
		"{name: mock, settings: {cuont: 3}}":          "file:4:49: profiles[0].backends[0].settings.cuont: unknown field \"cuont\"; did you mean \"count\"?\n",
		"{name: amd, settings: {partitions: {a: b}}}": "file:4:61: profiles[0].backends[0].settings.partitions.a: unknown field \"a\"; the fields here are ",
		"{name: absent, settings: {a: b}}":            "the settings for accelmux-backend-absent were not checked: the program ",
		"{name: mock, settings: {count: 3}}":          "",
	} {
		text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- {name: a, backends: [" + settings + "], resources: [{name: example.com/gpu}]}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, code := accelmux(t, "validate", file)
		errs = strings.ReplaceAll(strings.TrimPrefix(errs, "accelmux: "), file, "file")
		if !strings.HasPrefix(errs, want) || want == "" && errs != "" || (code == 0) != !strings.HasPrefix(want, "file") {
			t.Errorf("%s: %d\n%s\nwant\n%s", settings, code, errs, want)
		}
	}
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

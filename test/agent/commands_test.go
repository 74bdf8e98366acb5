package agent

import (
	"bytes"
	"encoding/json"
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

// No garbage is collected before main begins: at every start that took more processor time than the initialisation itself.
func TestCollectsNothingAtStart(t *testing.T) {
	t.Parallel()
	command := exec.CommandContext(t.Context(), filepath.Join(built.Dir(t), "accelmux"), "version")
	command.Env = []string{"GODEBUG=gctrace=1"}
	out, err := command.CombinedOutput()
	if err != nil || !bytes.HasPrefix(out, []byte("accelmux version ")) {
		t.Errorf("%v; it printed\n%s", err, out)
	}
}

// `accelmux validate` checks the settings of backends and the names of a configuration by what their programs declare,
// and names those whose program it cannot start.
func TestValidate(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.yaml")
	const gpus = "backends: [{name: nvidia}, {name: mock, settings: {attributes: {mode: x}}}], resources: "
	for profile, want := range map[string]string{
		"backends: [{name: nvidia, settings: {mig: {strategy: mixd}, rescna: 3s}}]": `file:4:56: profiles[0].backends[0].settings.mig.strategy: must be one of none, single, mixed, dynamic, is "mixd"; did you mean "mixed"?
file:4:73: profiles[0].backends[0].settings.rescna: unknown field "rescna"; did you mean "rescan"?
`,
		"backends: [{name: mock, settings: {cuont: 3}}]":                                    `file:4:48: profiles[0].backends[0].settings.cuont: unknown field "cuont"; did you mean "count"?` + "\n",
		"backends: [{name: amd, settings: {partitions: {a: b}}}]":                           `file:4:60: profiles[0].backends[0].settings.partitions.a: unknown field "a"; the fields here are `,
		"backends: [{name: absent, settings: {a: b}}]":                                      "not checked: the settings of accelmux-backend-absent, and the names of its attributes: it is not installed in ",
		"backends: [{name: mock, settings: {count: 3}}], resources: [{name: e.x/a}]":        "",
		gpus + `[{name: e.x/a, selector: 'device.attributes["nvidia"].prodctName == "A"'}]`: `file:4:116: profiles[0].resources[0].selector: no device of backend nvidia has the attribute prodctName; did you mean "productName"?`,
		gpus + `[{name: e.x/a, selector: 'device.capacity["nvidia"].memory.isInteger()'}]`:  "",
		gpus + `[{name: 'e.x/{mode}', backend: mock}]`:                                      "",
		gpus + `[{name: 'e.x/{mde}', backend: mock}]`:                                       `file:4:103: profiles[0].resources[0].name: no device of backend mock has the attribute mde, of which the name is made, so there is no such resource; did you mean "mode"?`,
		gpus + `[{name: e.x/a, parameters: {mesage: {value: x}}}]`:                          `warning: profiles[0].resources[0].parameters.mesage: containers with a value for it do not start: the backend does not know the parameter mesage; did you mean "message"?`,
		gpus + `[{name: e.x/a, class: migs}]`:                                               `profiles[0].resources[0].class: no backend has devices of the class migs, so the resource would be empty; did you mean "mig"?`,
	} {
		text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- {name: a, " + profile + "}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errs, code := accelmux(t, "validate", file)
		printed := strings.ReplaceAll(strings.TrimPrefix(errs, "accelmux: ")+out, file, "file")
		if !strings.Contains(printed, want) || want == "" && strings.Count(printed, "\n") != 1 || (code == 0) != (errs == "") || (code == 0) != strings.Contains(out, "is valid") {
			t.Errorf("%s: %d\n%s\nwant\n%s", profile, code, printed, want)
		}
	}
	var result struct {
		Errors []struct {
			Line, Column   int
			Field, Message string
		}
	}
	text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- {name: a, backends: [{name: mock, settings: {cuont: 3}}]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, code := accelmux(t, "validate", "-o", "json", file)
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 1 || len(result.Errors) != 1 || result.Errors[0].Line != 4 || result.Errors[0].Column != 48 {
		t.Errorf("-o json: %d, %v, %s", code, err, out)
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
	if code != 0 || !strings.Contains(table, "unhealthy: xid-79 (needs reboot)") || strings.Count(table, "\n") != 5 {
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

// `accelmux validate --against` shows what a configuration would change on a running node, or on one that was saved.
func TestValidateAgainst(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend)
	held := n.allocate("team/pod", gpu, 1)[0]
	n.eventually("the pod is known", func() bool { return len(n.device(held).Holders) == 1 && n.device(held).Holders[0].Pod == "pod" })
	n.write("new.yaml", strings.Replace(oneBackend, "{name: example.com/gpu}", "{name: 'example.com/other-{model}'}", 1))
	inventory, errs, code := accelmux(t, "topology", "-o", "inventory", "--run-dir", n.path("run"))
	if code != 0 {
		t.Fatal(errs)
	}
	n.write("inventory.yaml", inventory)
	for _, against := range []string{n.path("run"), n.path("inventory.yaml")} {
		out, errs, code := accelmux(t, "validate", n.path("new.yaml"), "--against", against)
		for _, want := range []string{"On node node-1, with its devices as they are now:", "example.com/other-Mock-M1", "0 -> 4", "appears", "vanishes", "team/pod/", "1 of these devices"} {
			if code != 0 || !strings.Contains(out, want) {
				t.Errorf("against %s: %d, no %q in\n%s%s", against, code, want, out, errs)
			}
		}
		if out, errs, code := accelmux(t, "validate", n.path("node.yaml"), "--against", against); code != 0 || !strings.Contains(out, "no resource changes, and no device moves") {
			t.Errorf("the configuration in force, against %s: %d\n%s%s", against, code, out, errs)
		}
	}
	n.write("claim.yaml", "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: a}\nspec: {devices: {requests: [{name: a, exactly: {deviceClassName: x}}]}}\n")
	if _, errs, _ := accelmux(t, "topology", "explain", "--claim", n.path("claim.yaml"), "--inventory", n.path("inventory.yaml")); !strings.Contains(errs, "no device is published in a ResourceSlice") {
		t.Errorf("explain does not read the inventory: %s", errs)
	}
}

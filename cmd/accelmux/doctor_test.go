package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/cmd/accelmux/doctor"
	"github.com/accelmux/accelmux/test/devicetree"
)

// Verifies what the command does with its arguments: without an agent it reads what they name and prints it in the
// chosen format, and a wrong use is an error of its own.
func TestDoctorCommand(t *testing.T) {
	root := devicetree.New(t, `
sys/bus/pci/devices/
dev/null
proc/1/comm: init
containerd.toml: version = 3
crio.conf: [crio]
config.yaml: apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, backends: [{name: mock}]}]
`).Root
	at := func(flag, path string) string { return "--" + flag + "=" + filepath.Join(root, path) }
	named := []string{
		at("sysfs", "sys"), at("devfs", "dev"), at("procfs", "proc"), at("run-dir", "run"), at("config", "config.yaml"), at("kubelet-dir", "kubelet"),
		at("cdi-dir", "cdi"), at("containerd-config", "containerd.toml"), at("crio-config", "crio.conf"),
	}
	run := func(args ...string) (text string, err error) {
		var out bytes.Buffer
		command := newRootCommand()
		command.SetArgs(append([]string{"doctor"}, args...))
		command.SetOut(&out)
		err = command.ExecuteContext(t.Context())
		return out.String(), err
	}
	text, err := run(append(named, "-o=json")...)
	var result doctor.Result
	if invalid := json.Unmarshal([]byte(text), &result); invalid != nil || err == nil || errors.As(err, new(usageError)) {
		t.Fatalf("%v, %v: %s", invalid, err, text)
	}
	states := map[string]doctor.Finding{}
	for _, s := range result.Steps {
		states[s.Step] = s.Finding
	}
	if s := states["configuration"]; s.State != doctor.OK || !strings.Contains(s.Why, filepath.Join(root, "config.yaml")) {
		t.Errorf("the configuration is %+v", s)
	}
	if s := states["agent"]; s.State != doctor.Stops || !strings.Contains(s.Why, filepath.Join(root, "run")) {
		t.Errorf("the agent is %+v", s)
	}
	if s := states["kubelet"]; s.State != doctor.Stops || !strings.Contains(s.Why, filepath.Join(root, "kubelet")) {
		t.Errorf("kubelet is %+v", s)
	}
	if text, err := run(named...); err == nil || !strings.HasPrefix(text, "STEP ") || !strings.Contains(text, "do: ") {
		t.Errorf("%v: printed %s", err, text)
	}
	for _, wrong := range [][]string{{"-o=jsn"}, {"--sysfss=/"}, {"GPU-1"}} {
		if text, err := run(wrong...); !errors.As(err, new(usageError)) || text != "" {
			t.Errorf("doctor %v: %v, printed %q", wrong, err, text)
		}
	}
}

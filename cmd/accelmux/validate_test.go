package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Verifies that validate names the backends whose edits the configuration refuses as a whole, and of
// described devices what it must allow.
func TestValidateNamesWhatIsNotAllowed(t *testing.T) {
	const nothing, unless = "may give nothing to containers", "left out unless it has allow: "
	for backend, want := range map[string]string{
		"{name: acme}": nothing, "{name: acme, allow: {declared: accept}}": "", "{name: acme, allow: {env: [ACME_*]}}": "",
		"{name: mock}": "", "{name: mock, allow: {declared: refuse}}": nothing,
		"{name: device, settings: {presets: [kvm, serial, sound]}}":                                                   unless + "{devices: [/dev/kvm, '/dev/ttyACM[0-9]*', '/dev/ttyUSB[0-9]*']}\n",
		"{name: device, settings: {presets: [kvm, serial]}, allow: {devices: ['/dev/ttyACM[0-9]*', '/dev/ttyUSB*']}}": unless + "{devices: [/dev/kvm]}\n",
		"{name: device, settings: {presets: [kvm]}, allow: {devices: [/dev/kvm]}}":                                    "",
		"{name: device, settings: {presets: [coral]}, allow: {declared: refuse, env: [A]}}":                           unless + "{devices: ['/dev/apex_[0-9]*']}\n",
	} {
		file := filepath.Join(t.TempDir(), "node.yaml")
		text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, backends: [" + backend + "]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := newValidateCommand()
		command.SetArgs([]string{file})
		command.SetOut(&out)
		if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) || want == "" && strings.Count(out.String(), "\n") > 1 {
			t.Errorf("%s: %v, printed %s", backend, err, &out)
		}
	}
}

// Verifies that validate finds what is wrong in a description of devices, with file and line.
func TestValidateFindsWrongDescriptions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	text := `apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
- name: a
  backends:
  - name: mock
  - name: device
    settings:
      presets: [kvm, tun9]
      kinds:
      - name: acme
        match: {class: acme}
        health:
        - fault: dead
          when: selv.text("x")
        attributes:
          "a b": name
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	command := newValidateCommand()
	command.SetArgs([]string{file})
	command.SilenceUsage, command.SilenceErrors = true, true
	err := command.ExecuteContext(t.Context())
	for _, want := range []string{
		`node.yaml:9:22: profiles[0].backends[1].settings.presets[1]: "tun9" is no preset`,
		`node.yaml:15:11: profiles[0].backends[1].settings.kinds[0].health[0].when: "selv.text(\"x\")", character 1: undeclared reference to 'selv'`,
		`node.yaml:17:11: profiles[0].backends[1].settings.kinds[0].attributes["a b"]: the name must be`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// Verifies that the examples of the documentation of described devices are valid, and allow what they
// need.
func TestExamplesOfDescribedDevices(t *testing.T) {
	text, err := os.ReadFile("../../docs/device.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```yaml\n")[1:]
	if len(examples) < 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		file := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := newValidateCommand()
		command.SetArgs([]string{file})
		command.SetOut(&out)
		if err := command.ExecuteContext(t.Context()); err != nil || strings.Contains(out.String(), "allow") {
			t.Errorf("%v, printed %s\n%s", err, &out, example)
		}
	}
}

// Verifies that a resource which an earlier one leaves nothing is named.
func TestValidateNamesStarvedResources(t *testing.T) {
	for resources, want := range map[string]string{
		"{name: e.x/all}, {name: e.x/mig, class: mig}": "e.x/mig gets no device: e.x/all, before it, takes them all",
		"{name: e.x/gpu, backend: mock, class: gpu}, {name: e.x/big, backend: mock, class: gpu, selector: device.driver == \"mock\"}": "e.x/big gets no device: e.x/gpu,",
		"{name: e.x/gpu, class: gpu}, {name: e.x/mig, class: mig}":                                                                    "",
		"{name: e.x/one, backend: mock}, {name: e.x/two}":                                                                             "",
		"{name: \"e.x/{model}\"}, {name: e.x/rest}":                                                                                   "",
		"{name: e.x/plugin}, {name: e.x/claims, api: dra}":                                                                            "",
		"{name: e.x/big, selector: device.driver == \"mock\"}, {name: e.x/rest}":                                                      "",
	} {
		file := filepath.Join(t.TempDir(), "node.yaml")
		text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, backends: [{name: mock}], resources: [" + resources + "]}]\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		command := newValidateCommand()
		command.SetArgs([]string{file})
		command.SetOut(&out)
		if err := command.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) || strings.Contains(out.String(), "gets no device") != (want != "") {
			t.Errorf("%s: %v, printed %s", resources, err, &out)
		}
	}
}

// Verifies that the configuration of another device plugin is answered with the command that translates it, and that
// one that is only wrong is not.
func TestValidateKnowsOtherPlugins(t *testing.T) {
	for text, want := range map[string]string{
		"version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}": "convert nvidia-device-plugin FILE` translates it",
		"gpu: {device_count: 2}":                  "convert amd-device-plugin FILE` translates it",
		"resourceList: []":                        "convert sriov-device-plugin FILE` translates it",
		"configList: []":                          "convert rdma-shared-device-plugin FILE` translates it",
		"permittedHostDevices: {}":                "convert kubevirt FILE` translates it",
		"version: v1":                             `unknown field "version"`,
		"apiVersion: accelmux.io/v2\nconfigList:": `unknown field "configList"`,
	} {
		file := filepath.Join(t.TempDir(), "node.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		command := newValidateCommand()
		command.SetArgs([]string{file})
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), file, "FILE"), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

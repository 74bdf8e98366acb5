package validate

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/test/programs"
)

// run checks a configuration by the manifests of accelmux' own backends; there are no programs.
func run(t *testing.T, text string) Result {
	t.Helper()
	return Run(t.Context(), "node.yaml", []byte(text), installed(t), "")
}

// directory is made by installed.
var directory string

func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(directory); err != nil {
		code = 1
	}
	os.Exit(code)
}

// installed returns a directory with the manifests of accelmux' own backends.
func installed(t *testing.T) string {
	t.Helper()
	if directory != "" {
		return directory
	}
	var err error
	if directory, err = os.MkdirTemp("", "accelmux-validate"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"amd", "device", "fpga", "mock", "nvidia"} {
		programs.InstallManifest(t, "../../../backends/"+name, filepath.Join(directory, config.CommandPrefix+name))
	}
	return directory
}

func inProfile(fields string) string {
	return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles: [{name: a, " + fields + "}]\n"
}

// printed returns what the command prints, errors last.
func (r Result) printed() string {
	var out bytes.Buffer
	r.Write(&out)
	if err := r.Err(); err != nil {
		fmt.Fprintln(&out, err)
	}
	return out.String()
}

// Verifies that backends whose edits the configuration refuses as a whole are named, and of
// described devices what it must allow if their manifest is not accepted, or has nothing for them.
func TestNotAllowed(t *testing.T) {
	const nothing, unless = "may give nothing to containers", "left out unless it has allow: "
	for backend, want := range map[string]string{
		"{name: acme}": nothing, "{name: acme, allow: {declared: accept}}": "", "{name: acme, allow: {env: [ACME_*]}}": "",
		"{name: mock}": "", "{name: mock, allow: {declared: refuse}}": nothing,
		"{name: device, settings: {presets: [kvm, serial, sound]}}":                                                                     "",
		"{name: device, settings: {presets: [kvm, serial]}, allow: {declared: refuse, devices: ['/dev/ttyACM[0-9]*', '/dev/ttyUSB*']}}": unless + "{devices: [/dev/kvm]}\n",
		"{name: device, settings: {presets: [kvm]}, allow: {declared: refuse, devices: [/dev/kvm]}}":                                    "",
		"{name: device, settings: {presets: [coral]}, allow: {declared: refuse, env: [A]}}":                                             unless + "{devices: ['/dev/apex_[0-9]*']}\n",
	} {
		r := run(t, inProfile("backends: ["+backend+"], resources: [{name: e.x/a}]"))
		if got := r.printed(); len(r.Errors) > 0 || (want == "") != (len(r.Warnings) == 0) || !strings.Contains(got, want) || want != "" && !strings.Contains(got, "node.yaml:3:33: warning: profiles[0].backends[0]: backend ") {
			t.Errorf("%s: printed %s", backend, got)
		}
	}
}

// Verifies that what is wrong in a description of devices is found, with its place, and names that its kinds do not
// define.
func TestDescribedDevices(t *testing.T) {
	got := run(t, `apiVersion: accelmux.io/v1alpha1
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
        edits: {env: {ACME: x}}
        health:
        - fault: dead
          when: selv.text("x")
        attributes:
          "a b": name
`).printed()
	for _, want := range []string{
		`node.yaml:9:22: profiles[0].backends[1].settings.presets[1]: there is no preset "tun9"; did you mean "tun"?`,
		`node.yaml:16:11: profiles[0].backends[1].settings.kinds[0].health[0].when: "selv.text(\"x\")", character 1: there is no name selv`,
		`node.yaml:18:11: profiles[0].backends[1].settings.kinds[0].attributes["a b"]: the name must be`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	const backend = "backends: [{name: device, settings: {kinds: [{name: acme, match: {class: acme}, edits: {nodes: [{path: '/dev/{name}'}]}, attributes: {model: name, index: '1'}, capacities: {slots: '4'}}]}, allow: {devices: ['/dev/*']}}]"
	for resource, want := range map[string]string{
		`{name: e.x/a, selector: 'device.attributes["device"].model == "x" && device.capacity["device"].slots.isInteger()'}`: "",
		`{name: e.x/a, selector: 'device.attributes["device"].modl == "x"'}`:                                                 `did you mean "model"?`,
		`{name: e.x/a, class: othr}`: `did you mean "other"?`,
	} {
		if got := run(t, inProfile(backend+", resources: ["+resource+"]")).printed(); strings.Contains(got, "is valid") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: printed %s", resource, got)
		}
	}
}

// Verifies that the examples of the documentation of described devices are valid, and allow what they
// need.
func TestExamplesOfDescribedDevices(t *testing.T) {
	text, err := os.ReadFile("../../../docs/device.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```yaml\n")[1:]
	if len(examples) < 2 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, example := range examples {
		example, _, _ = strings.Cut(example, "```")
		if r := run(t, example); len(r.Errors)+len(r.Warnings) > 0 {
			t.Errorf("%s\n%s", r.printed(), example)
		}
	}
}

// Verifies that a resource which an earlier one leaves nothing is named.
func TestStarvedResources(t *testing.T) {
	for resources, want := range map[string]string{
		"{name: e.x/all}, {name: e.x/npu, class: npu}": "e.x/npu gets no device: e.x/all, before it, takes them all",
		"{name: e.x/gpu, backend: mock, class: gpu}, {name: e.x/big, backend: mock, class: gpu, selector: device.driver == \"mock\"}": "e.x/big gets no device: e.x/gpu,",
		"{name: e.x/gpu, class: gpu}, {name: e.x/npu, class: npu}":                                                                    "",
		"{name: e.x/one, backend: mock}, {name: e.x/two}":                                                                             "",
		"{name: \"e.x/{model}\"}, {name: e.x/rest}":                                                                                   "",
		"{name: e.x/plugin}, {name: e.x/claims, api: dra}":                                                                            "",
		"{name: e.x/big, selector: device.driver == \"mock\"}, {name: e.x/rest}":                                                      "",
	} {
		r := run(t, inProfile("backends: [{name: mock}], resources: ["+resources+"]"))
		if got := r.printed(); len(r.Errors) > 0 || !strings.Contains(got, want) || strings.Contains(got, "gets no device") != (want != "") {
			t.Errorf("%s: printed %s", resources, got)
		}
	}
}

// Verifies that the configuration of another device plugin is answered with the command that translates it, also in an
// object of Kubernetes, and that one that is only wrong is not.
func TestOtherPlugins(t *testing.T) {
	wrapped := func(name, text string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  " + name + ": |\n    " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n    ") + "\n"
	}
	listed := func(object string) string {
		return "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSuffix(object, "\n"), "\n", "\n  ") + "\n"
	}
	const nvidia = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}\n"
	for text, want := range map[string]string{
		nvidia:                                         "nvidia-device-plugin",
		"gpu: {device_count: 2}":                       "amd-device-plugin",
		"resourceList: []":                             "sriov-device-plugin",
		"configList: []":                               "rdma-shared-device-plugin",
		"devices: [{name: a, groups: []}]":             "generic-device-plugin",
		"- devicematch: ^a$":                           "smarter-device-manager",
		"permittedHostDevices: {}":                     "kubevirt",
		wrapped("default", nvidia):                     "nvidia-device-plugin",
		listed(wrapped("default", nvidia)):             "nvidia-device-plugin",
		wrapped("config.json", `{"resourceList": []}`): "sriov-device-plugin",
		"apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nspec: {sriovDevicePlugin: {config: '{}'}}": "sriov-device-plugin",
		"dns: {}\ngenericDevicePlugin: {devices: []}":                                                          "generic-device-plugin",
		"apiVersion: kubevirt.io/v1\nkind: KubeVirt\nspec: {configuration: {permittedHostDevices: {}}}":        "kubevirt",
	} {
		if got := run(t, text).printed(); got != "node.yaml: this is a configuration of another device plugin: `accelmux convert "+want+" node.yaml` translates it\n" {
			t.Errorf("%s: %s", text, got)
		}
	}
	for text, want := range map[string]string{
		"version: v1": `unknown field "version"`,
		"apiVersion: accelmux.io/v2\nconfigList:":       `unknown field "configList"`,
		wrapped("a", "b: c"):                            `this is a "ConfigMap" of v1, and not a node configuration`,
		wrapped("node.yaml", inProfile("backends: []")): "this is a ConfigMap: check its value: `kubectl get configmap a -o jsonpath='{.data.node\\.yaml}' | accelmux validate -`",
	} {
		if got := run(t, text).printed(); !strings.Contains(got, want) || strings.Contains(got, "another device plugin") {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// Verifies that an error elsewhere does not hide those of settings.
func TestAllErrors(t *testing.T) {
	got := run(t, inProfile(`backends: [{name: device, settings: {presets: [x]}}, {name: b, heartbeat: 1, settings: {}}], resources: [{name: e.x/a, selector: "1"}]`)).printed()
	for _, want := range []string{`settings.presets[0]: there is no preset "x"`, ".heartbeat: must be", ".selector: is not a CEL expression"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// Verifies that findings are in the order of the file.
func TestOrder(t *testing.T) {
	r := run(t, `apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
- name: a
  resources: [{name: e.x/all}, {name: e.x/rest}]
  backends: [{name: acme}, {name: device, settings: {presets: [x], kinds: y}}]
`)
	if len(r.Errors) == 0 || len(r.Warnings) != 2 || !slices.IsSortedFunc(append(r.Warnings, r.Errors...), func(a, b Finding) int { return a.Line - b.Line }) {
		t.Errorf("%+v", r)
	}
}

// Verifies that a profile that is missing is an error of a configuration that is valid otherwise.
func TestNamedProfile(t *testing.T) {
	named := func(text, name string) Result { return Run(t.Context(), "node.yaml", []byte(text), installed(t), name) }
	for name, want := range map[string]string{"a": "", "b": "node.yaml: no profile \"b\"; the configuration has a\n"} {
		r := named(inProfile("backends: [{name: mock}], resources: [{name: e.x/a}]"), name)
		if _, got, _ := strings.Cut("\n"+r.printed(), "\n"+want); r.Err() == nil != (want == "") || want != "" && got != "" {
			t.Errorf("%s: %s", name, r.printed())
		}
	}
	const refused = "bakends: []"
	if before, after := run(t, inProfile(refused)), named(inProfile(refused), "b"); len(before.Errors) == 0 || len(after.Errors) != len(before.Errors) {
		t.Errorf("%+v", after.Errors)
	}
	if r := named(profiles("name: a", "name: default"), "a"); len(r.Warnings) != 0 {
		t.Errorf("%+v", r.Warnings)
	}
}

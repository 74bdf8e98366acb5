package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/accelmux/accelmux/core/config"
)

// Verifies translations, and that each result is a valid node configuration whose settings the
// backend's schema accepts.
func TestNVIDIA(t *testing.T) {
	schema := backendSchema(t)
	for name, tc := range map[string]struct {
		file string
		env  map[string]string
		args []string
		// want are lines of the result without indentation, none lines that it lacks, notes parts of the notes.
		want, none, notes []string
	}{
		"nothing": {
			want:  []string{"mode: runtime", "driverRoot: /", "driverRootMount: /driver-root", "- name: nvidia.com/gpu", "injection: plain"},
			none:  []string{"omitDeviceNodes: true", "replicas:", "vendorLabels: [nvidia.com]"},
			notes: []string{"omitDeviceNodes leaves them out"},
		},
		"time-slicing": {
			file:  "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n",
			want:  []string{"replicas: 4", "- name: nvidia.com/gpu"},
			notes: []string{"nvidia.com/gpu: accelmux refuses a request for more than one replica", "omitDeviceNodes"},
		},
		"time-slicing that refuses": {
			file:  "version: v1\nflags: {plugin: {passDeviceSpecs: true}}\nsharing:\n  timeSlicing:\n    renameByDefault: true\n    failRequestsGreaterThanOne: true\n    resources:\n    - {name: gpu, replicas: 4}\n",
			want:  []string{"- name: nvidia.com/gpu.shared", "plainProduct: true"},
			none:  []string{"omitDeviceNodes: true"},
			notes: []string{},
		},
		"MIG": {
			file: "version: v1\nflags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: true\n    resources:\n    - {name: nvidia.com/mig-1g.10gb.me, replicas: 2, devices: [0], rename: x}\n",
			want: []string{
				"strategy: mixed", "- name: nvidia.com/mig-1g.10gb.me", `selector: device.attributes["nvidia"].profile == "1g.10gb+me"`, "replicas: 2", "- name: nvidia.com/mig-{profile}",
			},
			notes: []string{"rename and devices are not translated"},
		},
		"MPS": {
			file:  "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 10}]}}\nflags: {plugin: {deviceListStrategy: cdi-cri}}\n",
			want:  []string{"mps:", "replicas: 10", "injection: cdi"},
			none:  []string{"mode: runtime"},
			notes: []string{"MPS needs a control daemon"},
		},
		"all of the file": {
			file: `version: v1
flags:
  migStrategy: single
  failOnInitError: true
  nvidiaDriverRoot: /run/nvidia/driver
  nvidiaDevRoot: /run/nvidia/driver
  gdrcopyEnabled: true
  gdsEnabled: true
  mofedEnabled: true
  useNodeFeatureAPI: false
  deviceDiscoveryStrategy: nvml
  mpsRoot: /run/nvidia/mps
  plugin:
    passDeviceSpecs: false
    deviceListStrategy: [envvar]
    deviceIDStrategy: index
    cdiAnnotationPrefix: cdi.k8s.io/
    nvidiaCTKPath: /usr/local/nvidia/toolkit/nvidia-cdi-hook
    containerDriverRoot: /driver
  gfd: {oneshot: false, noTimestamp: true, sleepInterval: 60s, outputFile: /x, machineTypeFile: /y}
imex: {channelIDs: [0], required: true}
resources: {gpus: [{pattern: "*", name: nvidia.com/gpu}]}
health: {disabled: true, ignoredXIDs: [109], eventTypes: [EventTypeXidCriticalError], criticalXIDs: [79]}
`,
			want: []string{
				"strategy: single", "driverRoot: /run/nvidia/driver", "devRoot: /run/nvidia/driver", "driverRootMount: /driver-root/run/nvidia/driver", "deviceIDs: index", "omitDeviceNodes: true",
				"gds: true", "mofed: true", "gdrcopy: true", "channels: [0]", "required: true", "ignore: [109]", "DP_DISABLE_HEALTHCHECKS: all",
				"vendorLabels: [nvidia.com]", "noTimestamp: true", "hook: /usr/local/nvidia/toolkit/nvidia-cdi-hook", "mode: runtime",
			},
			none: []string{"annotationPrefix: cdi.k8s.io"},
			notes: []string{
				"failOnInitError is not", "mpsRoot is not", "useNodeFeatureAPI is not", "gfd.oneshot is not", "gfd.sleepInterval is not", "gfd.outputFile is not",
				"gfd.machineTypeFile is not", "resources is not", "containerDriverRoot is not", "eventTypes is not", "criticalXIDs is not", "Labels need nodeFeatures",
			},
		},
		"environment and CDI": {
			env:  map[string]string{"DEVICE_LIST_STRATEGY": "envvar, cdi-cri,cdi-annotations", "PASS_DEVICE_SPECS": "true", "GDS_ENABLED": "", "NODE_NAME": "n", "NODE": "n", "DP_ENABLE_HEALTHCHECKS": "31"},
			want: []string{"visibleDevices: env", "DP_ENABLE_HEALTHCHECKS: \"31\""}, none: []string{"mode: runtime", "injection: plain"},
			notes: []string{"CDI definitions have the device nodes", "--node-name is not translated", `"NODE" is not a variable`},
		},
		"annotation prefix": {
			args: []string{"--device-list-strategy", "cdi-annotations", "--cdi-annotation-prefix=nvidia.cdi.k8s.io/", "--no-timestamp=false"},
			want: []string{"injection: cdi-annotations", "annotationPrefix: nvidia.cdi.k8s.io"}, notes: []string{},
		},
		"hooks": {
			args: []string{"--device-list-strategy=cdi-cri", "--cdi-disable-hooks=update-ldcache, enable-cuda-compat", "--cdi-feature-flags=disable-ipc-discoverer"},
			want: []string{"disabledHooks: [update-ldcache, enable-cuda-compat]"}, notes: []string{"--cdi-feature-flags is not translated"},
		},
		"hooks without CDI": {
			env:  map[string]string{"CDI_DISABLE_HOOKS": "all", "PASS_DEVICE_SPECS": "true"},
			none: []string{"disabledHooks: [all]"}, notes: []string{"--cdi-disable-hooks is not translated"},
		},
		"packed": {
			file: "version: v1\nflags: {migStrategy: mixed, plugin: {passDeviceSpecs: true, sharedDevicesAllocationPolicy: packed}}\n",
			want: []string{"- name: nvidia.com/gpu", "policy: pack"}, notes: []string{},
		},
		"packed, without what it is for": {
			env:  map[string]string{"SHARED_DEVICES_ALLOCATION_POLICY": "packed", "PASS_DEVICE_SPECS": "true"},
			none: []string{"policy: pack"}, notes: []string{},
		},
		"profiles of one size": {
			file: "version: v1\nflags: {migStrategy: mixed, plugin: {passDeviceSpecs: true}}\nsharing:\n  timeSlicing:\n    failRequestsGreaterThanOne: true\n    resources:\n    - {name: nvidia.com/mig-1g.12gb-me, replicas: 2}\n    - {name: nvidia.com/mig-1g.12gb.me.all, replicas: 3}\n",
			want: []string{
				"- name: nvidia.com/mig-1g.12gb-me", `selector: device.attributes["nvidia"].profile == "1g.12gb-me"`,
				"- name: nvidia.com/mig-1g.12gb.me.all", `selector: device.attributes["nvidia"].profile == "1g.12gb+me.all"`,
			},
			notes: []string{},
		},
		"a DaemonSet": {
			file: "kind: DaemonSet\nspec:\n  template:\n    spec:\n      containers:\n      - command: [nvidia-device-plugin, --mig-strategy=mixed]\n        env: [{name: PASS_DEVICE_SPECS, value: \"true\"}, {name: N, valueFrom: {}}]\n",
			args: []string{"--gds-enabled"}, want: []string{"strategy: mixed", "gds: true"}, notes: []string{},
		},
		"more replicas than can be": {
			file:  "version: v1\nflags: {renameByDefault: true, plugin: {passDeviceSpecs: true}}\nsharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: gpu, replicas: 16384}]}}\n",
			want:  []string{"replicas: 1000"},
			notes: []string{"nvidia.com/gpu: 16384 containers would share a device; 1000 can", `"flags.renameByDefault" is not a field of k8s-device-plugin, which ignores it (line 2)`},
		},
		"Tegra": {
			args: []string{"--device-discovery-strategy=tegra"}, want: []string{"mode: tegra", "- name: nvidia.com/gpu"},
			none: []string{"injection: plain"}, notes: []string{"the system needs NVML"},
		},
		"precedence": {
			file: "version: v1\nflags: {migStrategy: none}\n", env: map[string]string{"MIG_STRATEGY": "single"},
			args: []string{"--mig-strategy=mixed", "--pass-device-specs", "--device-list-strategy=envvar", "--device-list-strategy=volume-mounts"},
			want: []string{"strategy: mixed", "visibleDevices: mounts"}, none: []string{"omitDeviceNodes: true"}, notes: []string{"envvar and volume-mounts"},
		},
		"a typo": {
			file:  "version: v1\nflags: {migStrategi: mixed, plugin: {passDeviceSpecs: true, a: {b: 1}}}\nsharin: {}\n",
			notes: []string{`"flags.migStrategi" is not a field`, `"flags.plugin.a" is not`, `"sharin" is not`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, notes, err := NVIDIA(Source{File: []byte(tc.file), Env: tc.env, Args: tc.args})
			if err != nil {
				t.Fatal(err)
			}
			lines := map[string]bool{}
			for line := range strings.Lines(string(text)) {
				lines[strings.TrimSpace(line)] = true
			}
			for _, line := range tc.want {
				if !lines[line] {
					t.Errorf("there is no %q", line)
				}
			}
			for _, line := range tc.none {
				if lines[line] {
					t.Errorf("there is %q", line)
				}
			}
			const always = "on a node without a container, remove it"
			for _, part := range append(tc.notes, always) {
				if !strings.Contains(strings.Join(notes, "\n"), part) {
					t.Errorf("no note %q", part)
				}
			}
			if tc.notes != nil && len(notes) != len(tc.notes)+1 {
				t.Errorf("%d notes, want %d", len(notes), len(tc.notes)+1)
			}
			parsed, err := config.Parse("result", text)
			if err != nil {
				t.Fatal(err)
			}
			var settings any
			if err := json.Unmarshal(parsed.Profiles[0].Backends[0].Settings, &settings); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(settings); err != nil {
				t.Errorf("settings: %v", err)
			}
			if t.Failed() {
				t.Logf("%s", text)
			}
		})
	}
}

// Verifies that every option of k8s-device-plugin and gpu-feature-discovery is known: each flag, each variable and
// each field of the file.
func TestNVIDIAKnowsAllOptions(t *testing.T) {
	text, err := os.ReadFile("testdata/nvidia-options.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		var same *option // all names on a line are names of one option
		for _, word := range words[1:] {
			name, variable := strings.CutPrefix(word, "$")
			o := find(func(o *option) bool {
				switch {
				case words[0] == "field":
					return o.path == name
				case variable:
					return slices.Contains(o.env, name)
				}
				return slices.Contains(o.flags, name)
			})
			switch {
			case o == nil:
				t.Errorf("%s is not known", word)
			case same != nil && o != same:
				t.Errorf("%s is %s, want %s", word, o.path, same.path)
			default:
				same = o
			}
		}
	}
}

// backendSchema is that of the NVIDIA backend's settings.
func backendSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const path = "../../../backends/nvidia/settings.schema.json"
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// Verifies that a configuration which cannot be translated is refused, with the reason.
func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		args []string
		want string
	}{
		"no YAML":          {file: "a: [", want: "f.yaml:1: this is not YAML"},
		"no version":       {file: "flags: {}\n", want: "f.yaml:1:1: there is no field version"},
		"other version":    {file: "version: v2\n", want: `f.yaml:1:1: version: must be v1, is "v2"`},
		"a key twice":      {file: "version: v1\nimex: {}\nimex: {}\n", want: "f.yaml:3:1: imex: set twice"},
		"strategy":         {file: "version: v1\nflags: {migStrategy: all}\n", want: `f.yaml:2:9: flags.migStrategy: must be one of none, single, mixed, is "all"`},
		"truth":            {file: "version: v1\nflags: {gdsEnabled: sometimes}\n", want: `f.yaml:2:9: flags.gdsEnabled: must be true or false, is "sometimes"`},
		"text":             {file: "version: v1\nflags: {migStrategy: [none]}\n", want: "f.yaml:2:9: flags.migStrategy: must be a text"},
		"list strategy":    {args: []string{"--device-list-strategy=cdi"}, want: `is "cdi"`},
		"IDs":              {args: []string{"--device-id-strategy=name"}, want: "flag --device-id-strategy: must be one of"},
		"no flag":          {args: []string{"--migstrategy=mixed"}, want: `"--migstrategy=mixed" is not a flag`},
		"no dashes":        {args: []string{"mig-strategy=mixed"}, want: "is not a flag"},
		"no value":         {args: []string{"--mig-strategy"}, want: "has no value"},
		"prefix":           {args: []string{"--device-list-strategy=cdi-annotations", "--cdi-annotation-prefix=nvidia"}, want: "accelmux needs a domain and a slash"},
		"prefix, two ways": {args: []string{"--device-list-strategy=cdi-annotations,cdi-cri", "--cdi-annotation-prefix=nvidia.cdi.k8s.io/"}, want: "would add each device twice"},
		"hook":             {args: []string{"--device-list-strategy=cdi-cri", "--cdi-disable-hooks=A B"}, want: `flag --cdi-disable-hooks: must be names of hooks of nvidia-cdi-hook, or all, is "A B"`},
		"policy":           {args: []string{"--shared-devices-allocation-policy=tight"}, want: `flag --shared-devices-allocation-policy: must be one of distributed, packed, is "tight"`},
		"channel":          {args: []string{"--imex-channel-ids=x"}, want: `flag --imex-channel-ids: must be numbers of 0 to 1048575, is "x"`},
		"two ways":         {file: "version: v1\nsharing: {mps: {}, timeSlicing: {}}\n", want: "exclude each other"},
		"typo in sharing":  {file: "version: v1\nsharing: {timeSlicing: {resource: []}}\n", want: `unknown field "resource"`},
		"replicas":         {file: "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu}]}}\n", want: "f.yaml:2:37: sharing.timeSlicing.resources[0].replicas: must be at least 1"},
		"resource":         {file: "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/tpu, replicas: 2}]}}\n", want: `f.yaml:2:38: sharing.timeSlicing.resources[0].name: k8s-device-plugin has no resource "nvidia.com/tpu"`},
		"MPS, too many":    {file: "version: v1\nsharing:\n  mps:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 101}\n", want: "f.yaml:5:30: sharing.mps.resources[0].replicas: at most 100 containers"},
		"a name twice":     {file: "version: v1\nsharing: {mps: {resources: [{name: gpu, replicas: 2}, {name: nvidia.com/gpu, replicas: 2}]}}\n", want: "resources[1].name: nvidia.com/gpu is there twice"},
		"a DaemonSet":      {file: "kind: DaemonSet\nmetadata: {namespace: n}\nspec: {template: {spec: {volumes: [{configMap: {name: c}}]}}}\n", want: "f.yaml:1:1: this is the DaemonSet of the plugin, whose configuration is in the ConfigMap c that it mounts: give that, from `kubectl get configmap -n n c -o yaml` as FILE"},
		"several":          {file: "kind: DaemonSet\nspec:\n  template: {spec: {containers: [{name: a}, {name: b}]}}\n", want: "f.yaml:1:1: spec.template.spec.containers: a DaemonSet of one container can be read"},
		"MPS of MIG":       {file: "version: v1\nsharing: {mps: {resources: [{name: nvidia.com/mig-1g.5gb, replicas: 2}]}}\n", want: "f.yaml:2:30: sharing.mps.resources[0].name: MPS does not share MIG devices"},
	} {
		t.Run(name, func(t *testing.T) {
			text, _, err := NVIDIA(Source{Name: "f.yaml", File: []byte(tc.file), Args: tc.args})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q in the error\n%s", err, tc.want, text)
			}
		})
	}
}

// Verifies that each configuration of a ConfigMap is a profile, by the label of NVIDIA's
// config-manager, and that one is refused with its name.
func TestNVIDIAConfigMap(t *testing.T) {
	const head = "kind: ConfigMap\ndata:\n"
	text, _, err := NVIDIA(Source{File: []byte(head + "  default: |\n    version: v1\n  A100_mixed: |\n    version: v1\n    flags: {migStrategy: mixed}\n")})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := config.Parse("node.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if p := loaded.Profiles; len(p) != 2 || p[0].Name != "default" || p[0].NodeSelector != nil || p[1].Name != "a100-mixed" ||
		p[1].NodeSelector.MatchLabels[configLabel] != "A100_mixed" || len(p[1].Resources) != 2 {
		t.Errorf("%s", text)
	}
	for file, want := range map[string]string{
		head + "  a: |\n    version: v1\n  b: |\n    version: v2\n": "f.yaml (data[\"b\"]):6: version: must be v1, is \"v2\"",
		head: "data: the ConfigMap has no configuration",
		head + "  a: |\n    version: v1\n  b: |\n    version: v1\n":     "No profile applies to nodes without the label",
		head + "  a: |\n    version: v1\n":                              "name: default",
		head + "  a_b: |\n    version: v1\n  a-b: |\n    version: v1\n": "f.yaml:5:3: data.a-b: \"a-b\" is already used by data.a_b, on line 3",
		head + "  a: {}\n": "data.a: it must be the text",
	} {
		text, _, err := NVIDIA(Source{Name: "f.yaml", File: []byte(file)})
		if got := fmt.Sprint(err) + string(text); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", file, got, want)
		}
	}
}

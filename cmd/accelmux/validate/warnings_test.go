package validate

import (
	"strings"
	"testing"
)

// profiles returns a configuration with profiles that have these fields, each on one line, from the fourth.
func profiles(fields ...string) string {
	text := "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n"
	for _, f := range fields {
		text += "- {" + f + ", backends: [{name: mock}], resources: [{name: e.x/a}]}\n"
	}
	return text
}

// Verifies the whole of what is printed for what no agent refuses, and nobody means.
func TestWarnings(t *testing.T) {
	one := func(backend, resources string) string {
		return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- name: a\n  backends:\n  - {" + backend + "}\n  resources:\n  - {" + strings.ReplaceAll(resources, "}, {", "}\n  - {") + "}\n"
	}
	for _, c := range []struct{ name, text, want string }{
		// Profiles that nodes cannot choose by their labels.
		{"two for all nodes", profiles("name: a, nodeSelector: {}", "name: b, nodeSelector: {}"),
			"5:3: profiles[1]: profile a matches the nodes of profile b, too, with the same priority 0, and then none applies: give one a higher priority"},
		{"one for some, with the priority of all", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}}", "name: b, nodeSelector: {}"),
			"4:3: profiles[0]: profile b matches the nodes of profile a, too, with the same priority 0, and then none applies: give one a higher priority"},
		{"one for some, of a lower priority", profiles("name: a, nodeSelector: {matchLabels: {gpu: a, b: c}}", "name: b, nodeSelector: {matchExpressions: [{key: gpu, operator: In, values: [a]}]}, priority: 1"),
			"4:3: profiles[0]: no node gets profile a, unless --profile names it: profile b matches all of its nodes with the higher priority 1"},
		{"one for some, of a higher priority", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}}, priority: 1", "name: b, nodeSelector: {}"), ""},
		{"different nodes", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}}", "name: b, nodeSelector: {matchAnnotations: {gpu: a}}", "name: c, nodeSelector: {matchExpressions: [{key: gpu, operator: NotIn, values: [a]}]}", "name: default"), ""},
		{"one for none", profiles("name: a, nodeSelector: {matchLabels: {gpu: a}, matchExpressions: [{key: gpu, operator: DoesNotExist}]}", "name: default"),
			"4:3: profiles[0]: no node gets profile a, unless --profile names it: no value of the label gpu meets all of its nodeSelector"},
		{"two without a nodeSelector", profiles("name: a", "name: b"),
			"5:3: profiles[1]: the profiles a and b have no nodeSelector, and then none applies: name one of them default, or give it a nodeSelector"},
		{"one beside the default", profiles("name: a", "name: default"),
			"4:3: profiles[0]: no node gets profile a, unless --profile names it: it has no nodeSelector, and of those without one the profile default applies"},
		{"a default beside one for all nodes", profiles("name: default", "name: b, nodeSelector: {}"),
			"4:3: profiles[0]: no node gets profile default, unless --profile names it: profile b, whose nodeSelector is empty, matches every node"},

		// Fields without effect.
		{"dra without api: dra", one("name: mock, dra: {evict: true}", "name: e.x/a"), "6:18: profiles[0].backends[0].dra: dra of backend mock has no effect: no resource of profile a serves its devices with api: dra"},
		{"dra, and api: dra of another backend", one("name: mock, dra: {driver: e.x, metadata: true}}\n  - {name: nvidia", "name: e.x/a, backend: mock}, {name: e.x/b, backend: nvidia, api: dra"),
			"6:18: profiles[0].backends[0].dra: dra of backend mock has no effect: no resource of profile a serves its devices with api: dra"},
		{"dra with api: dra", one("name: mock, dra: {evict: true}", "name: e.x/a, api: dra"), ""},
		{"telemetry", one("name: mock, telemetry: {sample: never, interval: 20s}", "name: e.x/a"), "6:45: profiles[0].backends[0].telemetry.interval: telemetry.interval of backend mock has no effect with sample: never"},
		{"empty selector", one("name: mock", "name: e.x/a, selector: ''"), "8:19: profiles[0].resources[0].selector: the selector of resource e.x/a is empty, which means all: fill it in, or leave it out"},
		{"empty class", one("name: mock", "name: e.x/a, class: "), "8:19: profiles[0].resources[0].class: the class of resource e.x/a is empty, which means all: fill it in, or leave it out"},
		{"empty backend", one("name: mock", "name: e.x/a, backend: ''"), "8:19: profiles[0].resources[0].backend: the backend of resource e.x/a is empty, which means all: fill it in, or leave it out"},
		{"sandbox", one("name: mock, sandbox: {mode: off, memory: 1Gi}", "name: e.x/a"), "6:39: profiles[0].backends[0].sandbox.memory: sandbox.memory of backend mock has no effect with mode: off"},
		{"allocation", one("name: mock", "name: e.x/a, allocation: {policy: none, links: weakest}"), "8:46: profiles[0].resources[0].allocation.links: allocation.links of resource e.x/a has no effect with policy: none"},

		// Settings that leave no device of a class or with an attribute.
		{"MIG is off", one(`name: nvidia`, `name: e.x/a, class: mig`),
			`8:19: profiles[0].resources[0].class: the resource is empty: backend nvidia has no devices of the class mig with these settings, which takes mig.strategy: mixed or dynamic`},
		{"MIG", one(`name: nvidia, settings: {mig: {strategy: mixed}}`, `name: e.x/a, class: mig`),
			``},
		{"made for claims", one(`name: nvidia, settings: {mig: {strategy: dynamic}}`, `name: e.x/a, class: mig`),
			`8:19: profiles[0].resources[0].class: with these settings backend nvidia makes devices of the class mig for claims: write api: dra; without that the resource has only those that exist already`},
		{"for claims", one(`name: nvidia, settings: {mig: {strategy: dynamic}}`, `name: e.x/a, class: mig, api: dra`),
			``},
		{"functions for claims", one(`name: fpga, settings: {mode: dynamic, bitstreams: /b}`, `name: e.x/a, class: af`),
			`8:19: profiles[0].resources[0].class: with these settings backend fpga makes devices of the class af for claims: write api: dra; without that the resource has only those that exist already`},
		{"no functions", one(`name: fpga, settings: {mode: region}`, `name: e.x/a, class: af`),
			`8:19: profiles[0].resources[0].class: the resource is empty: backend fpga has no devices of the class af with these settings, which takes mode: af or dynamic`},
		{"a preset that is off", one(`name: device, settings: {presets: [kvm]}`, `name: e.x/a, class: serial`),
			`8:19: profiles[0].resources[0].class: the resource is empty: backend device has no devices of the class serial with these settings, which takes presets: [serial]`},
		{"a kind of the class", one(`name: device, settings: {kinds: [{name: ftdi, preset: serial}]}`, `name: e.x/a, class: serial`),
			``},
		{"no presets", one(`name: device`, `name: e.x/a`),
			`6:5: profiles[0].backends[0].settings: backend device has no devices: name presets in its settings, or describe kinds; the presets are ascend, aws-neuron, cambricon, coral, coral-usb, furiosa, fuse, gaudi, google-tpu, hailo, intel-dlb, intel-dsa, intel-gpu, intel-iaa, intel-npu, intel-qat, intel-sgx, kvm, mdev, qualcomm-aic100, rdma, rebellions, serial, socketcan, solarflare-onload, sound, sriov, sriov-sf, tenstorrent, tun, usb, vfio-pci, vhost-net, vhost-vsock, video4linux`},
		{"another class of the mock", one(`name: mock, settings: {devices: [{class: npu}]}`, `name: e.x/a, class: npu}, {name: e.x/b, class: fpga`),
			`9:19: profiles[0].resources[1].class: the resource is empty: backend mock has no devices of the class fpga with these settings, which takes class: fpga, or devices[*].class: fpga, or scenarioFile`},
		{"an attribute of MIG devices", one(`name: nvidia`, `name: e.x/a, class: gpu, selector: 'device.attributes["nvidia"].profile == "1g.10gb"'`),
			`8:31: profiles[0].resources[0].selector: no device of backend nvidia has the attribute profile with these settings, which takes mig.strategy: mixed or dynamic, or mig.strategy: single`},
		{"an attribute of another class", one(`name: nvidia, settings: {mig: {strategy: mixed}}`, `name: e.x/a, class: gpu, selector: 'device.attributes["nvidia"].profile == "1g.10gb"'`),
			`8:31: profiles[0].resources[0].selector: devices of the class gpu do not have the attribute profile, which those of the class mig have`},
		{"MIG devices as GPUs", one(`name: nvidia, settings: {mig: {strategy: single}}`, `name: e.x/a, class: gpu, selector: 'device.attributes["nvidia"].profile == "1g.10gb"'`),
			``},
		{"a filter", one(`name: nvidia, settings: {mig: {strategy: mixed}}`, `name: e.x/a, class: gpu, selector: '!has(device.attributes["nvidia"].profile)'`),
			``},
		{"a name of another class", one(`name: nvidia, settings: {mig: {strategy: mixed}}`, `name: "e.x/{profile}", class: gpu`),
			`8:6: profiles[0].resources[0].name: devices of the class gpu do not have the attribute profile, which those of the class mig have`},
		{"replicas", one(`name: nvidia, settings: {mps: {replicas: 4}}`, `name: e.x/a, class: gpu, replicas: 8`),
			`8:31: profiles[0].resources[0].replicas: replicas is 8, but backend nvidia sets up its devices of class gpu for 4 containers each: make replicas of the resource and the backend's settings say the same`},
		{"no replicas", one(`name: nvidia, settings: {mps: {replicas: 4}}`, `name: e.x/a`),
			`8:5: profiles[0].resources[0].replicas: replicas is 1, but backend nvidia sets up its devices of class gpu for 4 containers each: make replicas of the resource and the backend's settings say the same`},
		{"replicas of some", one(`name: nvidia, settings: {mps: {replicas: 4}}`, `name: e.x/a, replicas: 4, selector: 'device.attributes["nvidia"].sharing == "mps"'}, {name: e.x/b`),
			``},
		{"replicas of shares", one(`name: nvidia, settings: {mps: {replicas: 4, claims: true}}`, `name: e.x/a, replicas: 8`),
			``},

		// Values that there never are.
		{"a value", one(`name: nvidia`, `name: e.x/a, selector: 'device.attributes["nvidia"].type == "GPU"'`),
			`8:19: profiles[0].resources[0].selector: device.attributes["nvidia"].type is never "GPU"; did you mean "gpu"?`},
		{"a value of several", one(`name: nvidia`, `name: e.x/a, selector: 'device.attributes["nvidia"].type in ["gpu", "card"]'`),
			`8:19: profiles[0].resources[0].selector: device.attributes["nvidia"].type is never "card"; it is one of gpu, mig`},
		{"a value not", one(`name: amd`, `name: e.x/a, selector: '"CPX" != device.attributes["amd"].computePartition'`),
			`8:19: profiles[0].resources[0].selector: device.attributes["amd"].computePartition is never "CPX"; did you mean "cpx"?`},
		{"a kind", one(`name: device, settings: {kinds: [{name: ftdi, preset: serial}]}`, `name: e.x/a, selector: 'device.attributes["device"].kind == "fdti"'`),
			`8:19: profiles[0].resources[0].selector: device.attributes["device"].kind is never "fdti"; did you mean "ftdi"?`},
		{"any value", one(`name: nvidia`, `name: e.x/a, selector: 'device.attributes["nvidia"].architecture == "Rubin"'`),
			``},
		{"a fact", one("name: nvidia}\n  - {name: mock", `name: e.x/a, selector: 'device.attributes["accelmux.io"].vendor == "Nvidia" || device.attributes["accelmux.io"].class == "npu"'`),
			`9:19: profiles[0].resources[0].selector: device.attributes["accelmux.io"].vendor is never "Nvidia"; did you mean "NVIDIA"?`},
		{"a label", one(`name: nvidia, vendorLabels: [nvdia.com]`, `name: e.x/a`),
			`6:35: profiles[0].backends[0].vendorLabels[0]: backend nvidia has no labels of nvdia.com; did you mean "nvidia.com"?`},
		{"a label of none", one(`name: fpga, vendorLabels: [intel.com]`, `name: e.x/a`),
			`6:33: profiles[0].backends[0].vendorLabels[0]: backend fpga has no labels of intel.com; it has none`},
		{"a parameter", one(`name: nvidia`, `name: e.x/a, parameters: {timeSlice: {value: Tiny}}`),
			`8:44: profiles[0].resources[0].parameters.timeSlice.value: containers do not start: must be one of Default, Short, Medium, Long, is "Tiny"`},
		{"a number", one(`name: mock`, `name: e.x/a, parameters: {partitionCount: {value: two, env: COUNT}}`),
			`8:49: profiles[0].resources[0].parameters.partitionCount.value: containers that give no other value do not start: must be a whole number of at least 0, is "two"`},
		{"right parameters", one(`name: mock`, `name: e.x/a, parameters: {partitionCount: {value: "2"}, message: {value: "2"}, interval: {env: X}}`),
			``},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			for line := range strings.Lines(run(t, c.text).printed()) {
				if !strings.HasPrefix(line, "node.yaml: profile ") { // is valid
					got += strings.Replace(strings.TrimPrefix(line, "node.yaml:"), "warning: ", "", 1)
				}
			}
			if got = strings.TrimSuffix(got, "\n"); got != c.want {
				t.Errorf("printed\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// with is a valid configuration, on lines 1 to 9, whose backend has the given
// extra lines, from line 7 on, and whose resource has others.
func with(backend, resource string) string {
	indent := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			b.WriteString("        " + line)
		}
		if s != "" {
			b.WriteString("\n")
		}
		return b.String()
	}
	return "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n  - name: default\n    backends:\n      - name: mock\n" +
		indent(backend) + "    resources:\n      - name: example.com/gpu\n" + indent(resource)
}

// manyParameters is the inside of a mapping of n parameters.
func manyParameters(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "p%d: {value: a},", i)
	}
	return b.String()
}

// manyKinds is the inside of a list of n opaque kinds.
func manyKinds(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{apiVersion: a/v%d, kind: A},", i)
	}
	return b.String()
}

// manyFields is the inside of a mapping of n fields of an opaque kind.
func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "f%d: p%d,", i, i)
	}
	return b.String()
}

// TestRefused verifies for every kind of mistake what the operator reads: the
// file, the line, the field and the message.
func TestRefused(t *testing.T) {
	const (
		backend  = "profiles[0].backends[0]"
		resource = "profiles[0].resources[0]"
		header   = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\n"

		attribute = "must be the name of an attribute, letters, digits and underscores, not starting with a digit, at most 32, is "
	)
	tests := map[string]struct {
		in   string
		want []string
	}{
		"empty file":    {"", []string{"node.yaml: the file is empty; it must start with apiVersion: accelmux.io/v1alpha1 and kind: NodeConfig"}},
		"too big":       {strings.Repeat("#", MaxFileSize+1), []string{"node.yaml: the file is bigger than 1048576 bytes"}},
		"not YAML":      {"a: b\nc: [d\n", []string{"node.yaml:2: this is not YAML: \"[\" is not closed by \"]\", or a comma is missing"}},
		"two documents": {with("", "") + "---\nkind: Other\n", []string{"node.yaml:9: a second YAML document starts here; a file holds exactly one"}},
		"header": {"apiVersion: v1\nkind: Pod\nprofiles: [{name: a, backends: [{name: b}]}]\n", []string{
			`node.yaml:1: apiVersion: must be accelmux.io/v1alpha1, is "v1"`,
			`node.yaml:2: kind: must be NodeConfig, is "Pod"`,
		}},
		"nothing required": {"kind: NodeConfig\n", []string{
			`node.yaml:1: apiVersion: is missing: write apiVersion: accelmux.io/v1alpha1`,
			"node.yaml:1: profiles: at least one profile is required",
		}},
		"no names": {header + "profiles:\n- backends:\n  - command: x\n  resources:\n  - class: gpu\n", []string{
			"node.yaml:4: profiles[0].name: is required, such as default",
			"node.yaml:5: profiles[0].backends[0].name: is required, such as mock",
			"node.yaml:7: profiles[0].resources[0].name: is required, such as example.com/gpu",
		}},
		"ignored hardware": {header + "profiles:\n- name: a\n  backends: [{name: b}]\n  ignorePCI: [10de, \"0x10de\"]\n", []string{
			`node.yaml:6: profiles[0].ignorePCI[1]: must be a PCI vendor such as 10de, or a vendor and a device such as 10de:1eb8, in lower-case hexadecimal digits as lspci -n prints them, is "0x10de"; write "10de"`}},
		"unknown field": {with("", "replica: 2"), []string{
			`node.yaml:9: ` + resource + `.replica: unknown field "replica"; did you mean "replicas"?`,
		}},
		"unprintable field": {with("\"a\\nb\\e\": 1", ""), []string{
			`node.yaml:7: ` + backend + `["a\nb\x1b"]: unknown field "a\nb\x1b"; the fields here are name, command, checksum, manifestChecksum, env, settings, heartbeat, holdover, recovery, allow, sandbox, features, featurePrefix, vendorLabels, telemetry, dra; what only this backend knows belongs below settings`,
		}},
		"field twice":    {with("", "replicas: 2\nreplicas: 3"), []string{"node.yaml:10: " + resource + ".replicas: set twice, first on line 9"}},
		"env twice":      {with("env:\n  A: x\n  A: y", ""), []string{"node.yaml:9: " + backend + ".env.A: set twice, first on line 8"}},
		"merge key":      {with("<<: {command: x}", ""), []string{`node.yaml:7: ` + backend + `["<<"]: merge keys are not supported; write the fields out`}},
		"key not string": {with("1: x", ""), []string{`node.yaml:7: ` + backend + `: a key must be a string, this one is the number "1"; put it in quotes`}},
		"number for string": {strings.Replace(with("", ""), "name: default", "name: 5", 1), []string{
			`node.yaml:4: profiles[0].name: must be a string, is the number "5"; put it in quotes`,
		}},
		"boolean for env":   {with("env: {A: true}", ""), []string{`node.yaml:7: ` + backend + `.env.A: must be a string, is the boolean "true"; put it in quotes`}},
		"list for mapping":  {with("", "parameters: [a]"), []string{`node.yaml:9: ` + resource + `.parameters: must be a mapping of names to mappings, is a list`}},
		"duration mapping":  {with("holdover: {s: 1}", ""), []string{`node.yaml:7: ` + backend + `.holdover: must be a string, is a mapping; a text that begins with { must be in quotes`}},
		"string for number": {with("", `replicas: "2"`), []string{`node.yaml:9: ` + resource + `.replicas: must be a whole number, is the string "2"; take the quotes away`}},
		"fraction":          {with("", "replicas: 1.5"), []string{`node.yaml:9: ` + resource + `.replicas: must be a whole number, is the number "1.5"`}},
		"hexadecimal":       {with("", "replicas: 0x10"), []string{`node.yaml:9: ` + resource + `.replicas: must be a whole number in plain decimal digits, is "0x10"`}},
		"custom tag":        {with("", "class: !gpu x"), []string{`node.yaml:9: ` + resource + `.class: must be a string, is of the type "!gpu"; put it in quotes`}},
		"duration no unit":  {with("holdover: 10", ""), []string{`node.yaml:7: ` + backend + `.holdover: must be a duration with a unit, such as 10s or 1m30s, is "10"; write 10s for seconds`}},
		"values of a backend": {with("heartbeat: 99ms\nholdover: -1s\nrecovery: {delay: 61m, reset: Auto}\ntelemetry: {interval: 999ms, sample: always}\nenv: {A: \"\\0\"}\n"+
			"features: [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q]", ""), []string{
			`node.yaml:7: ` + backend + `.heartbeat: must be between 100ms and 1m, is 99ms`,
			`node.yaml:8: ` + backend + `.holdover: must be between 0s and 24h, is -1s`,
			`node.yaml:9: ` + backend + `.recovery.delay: must be between 0s and 1h, is 1h1m`,
			`node.yaml:9: ` + backend + `.recovery.reset: must be one of auto, never, is "Auto"; did you mean "auto"?`,
			`node.yaml:10: ` + backend + `.telemetry.interval: must be between 1s and 10m, is 999ms`,
			`node.yaml:10: ` + backend + `.telemetry.sample: must be one of auto, never, is "always"`,
			`node.yaml:11: ` + backend + `.env.A: the value must not contain a NUL byte`,
			`node.yaml:12: ` + backend + `.features: at most 16 attributes can be features, these are 17`,
		}},
		"device plugin fields under dra": {with("", "api: dra\nreplicas: 2\ninjection: cdi\nallocation: {policy: pack}\nparameters: {a: {value: b}}"), []string{
			`node.yaml:10: ` + resource + `.replicas: is not for api: dra: a device that may be shared is published as such, and claims say how much of it they want`,
			`node.yaml:11: ` + resource + `.injection: is not for api: dra: kubelet gives CDI names to the container runtime`,
			`node.yaml:12: ` + resource + `.allocation: is not for api: dra: the scheduler chooses devices, in the order in which they are published`,
			`node.yaml:13: ` + resource + `.parameters: is not for api: dra: claims and device classes have opaque parameters`,
		}},
		"an unknown API": {with("", "api: DRA"), []string{`node.yaml:9: ` + resource + `.api: must be one of devicePlugin, dra, is "DRA"; did you mean "dra"?`}},
		"a DRA driver": {with("dra: {driver: GPU, evict: yes please}", ""), []string{
			`node.yaml:7: ` + backend + `.dra.driver: must be a DNS name of lower-case letters, digits, dashes and dots, such as gpu.example.com, is "GPU"`,
			`node.yaml:7: ` + backend + `.dra.evict: must be true or false, is the string "yes please"`,
		}},
		"kinds for a DRA driver": {with(`dra:
  kinds:
    - {kind: gpuConfig, fields: {kind: a, a..b: b}}
    - {apiVersion: v1, kind: Config, fields: {a: x, b.c: x, d: 4x, e: ""}}
    - {apiVersion: accelmux.io/v1alpha1, kind: DeviceParameters}
    - {apiVersion: a.b/v1, kind: Config}
    - {apiVersion: a.b/v1, kind: Config, field: {}}
    - {apiVersion: a.b/v1, kind: Other, fields: [a]}`, ""), []string{
			`node.yaml:9: ` + backend + `.dra.kinds[0].apiVersion: is required, such as gpu.resource.example.com/v1alpha1`,
			`node.yaml:9: ` + backend + `.dra.kinds[0].kind: must be letters and digits, starting with a capital letter, at most 63, is "gpuConfig"`,
			`node.yaml:9: ` + backend + `.dra.kinds[0].fields.kind: kind is no parameter`,
			`node.yaml:9: ` + backend + `.dra.kinds[0].fields["a..b"]: must be the path of a field, names of letters, digits, dashes and underscores with dots in between, such as sharing.strategy, is "a..b"`,
			`node.yaml:10: ` + backend + `.dra.kinds[1].apiVersion: must be group/version, such as gpu.resource.example.com/v1alpha1, is "v1"`,
			`node.yaml:10: ` + backend + `.dra.kinds[1].fields["b.c"]: the parameter "x" is already that of the field a`,
			`node.yaml:10: ` + backend + `.dra.kinds[1].fields.d: must be the name of a parameter of the backend, letters, digits and underscores, not starting with a digit, at most 32, is "4x"`,
			`node.yaml:10: ` + backend + `.dra.kinds[1].fields.e: must be the name of a parameter of the backend, letters, digits and underscores, not starting with a digit, at most 32, is ""`,
			`node.yaml:11: ` + backend + `.dra.kinds[2].apiVersion: accelmux.io/v1alpha1 is accelmux's own: its kind is always accepted`,
			`node.yaml:13: ` + backend + `.dra.kinds[4].kind: "Config of a.b/v1" is already used by ` + backend + `.dra.kinds[3], on line 12`,
			`node.yaml:13: ` + backend + `.dra.kinds[4].field: unknown field "field"; did you mean "fields"?`,
			`node.yaml:14: ` + backend + `.dra.kinds[5].fields: must be a mapping of names to strings, is a list`,
		}},
		"too many kinds for a DRA driver": {with("dra: {kinds: ["+manyKinds(17)+"]}", ""), []string{
			`node.yaml:7: ` + backend + `.dra.kinds: at most 16 kinds are possible, these are 17`}},
		"too many fields of a kind": {with("dra: {kinds: [{apiVersion: a/v1, kind: A, fields: {"+manyFields(33)+"}}]}", ""), []string{
			`node.yaml:7: ` + backend + `.dra.kinds[0].fields: at most 32 fields are possible, these are 33`}},
		"one driver of two backends": {header + "profiles: [{name: a, backends: [{name: b}, {name: c, dra: {driver: b.accelmux.io}}]}]", []string{
			`node.yaml:3: profiles[0].backends[1].dra.driver: "b.accelmux.io" is already used by profiles[0].backends[0].dra, on line 3`}},
		"a long name of a DRA driver": {header + "profiles: [{name: a, backends: [{name: " + strings.Repeat("b", 60) + "}], resources: [{name: a.b/c, api: dra}]}]", []string{
			`node.yaml:3: profiles[0].backends[0].dra.driver: is too long for the name of a DRA driver: 72 characters, at most 63`}},
		"values of a resource": {with("", "class: GPU\nreplicas: 1001\nmaxReplicasPerContainer: -1\ninjection: oci\nregistration: \"\"\nallocation: {policy: packed, links: strongest}\nreset: always"), []string{
			`node.yaml:9: ` + resource + `.class: must be a lower-case letter, then lower-case letters, digits or dashes, at most 63 in all, is "GPU"`,
			`node.yaml:10: ` + resource + `.replicas: must be between 1 and 1000, is 1001`,
			`node.yaml:11: ` + resource + `.maxReplicasPerContainer: must be between 0 and 1000, is -1`,
			`node.yaml:12: ` + resource + `.injection: must be one of auto, cdi, cdi-annotations, plain, is "oci"`,
			`node.yaml:13: ` + resource + `.registration: must be one of socket, watcher, is ""`,
			`node.yaml:14: ` + resource + `.allocation.policy: must be one of best-links, spread, pack, none, is "packed"; did you mean "pack"?`,
			`node.yaml:14: ` + resource + `.allocation.links: must be one of sum, weakest, is "strongest"`,
			`node.yaml:15: ` + resource + `.reset: must be one of never, afterUse, is "always"`,
		}},
		"resets that the backend forbids": {with("recovery: {reset: never}", "reset: afterUse"), []string{
			`node.yaml:10: ` + resource + `.reset: afterUse contradicts recovery.reset: never of backend mock: no device of it is ever reset`}},
		"resets that all backends forbid": {header + "profiles:\n- name: a\n  backends:\n  - {name: b, recovery: {reset: never}}\n  - {name: c, recovery: {reset: never}}\n  - name: d\n  resources:\n  - {name: e.x/b, backend: b, reset: afterUse}\n  - {name: e.x/g, reset: afterUse}\n- name: z\n  backends:\n  - {name: b, recovery: {reset: never}}\n  - {name: c, recovery: {reset: never}}\n  resources:\n  - {name: e.x/g, selector: device.driver == \"c\", reset: afterUse}\n", []string{
			`node.yaml:10: profiles[0].resources[0].reset: afterUse contradicts recovery.reset: never of backend b: no device of it is ever reset`,
			`node.yaml:17: profiles[1].resources[0].reset: afterUse contradicts recovery.reset: never of backend b, c: no device of it is ever reset`}},
		"names": {header + "profiles:\n- name: A.b\n  backends: [{name: 1b}]\n- name: a\n  backends:\n  - {name: b, featurePrefix: c.d}\n  - {name: b, featurePrefix: c.d}\n  resources:\n  - name: e.x/g\n  - name: e.x/g\n  - name: e.x/{a}\n  - name: e.x/{a}\n  - name: e.x/{a\n- {name: a, backends: []}\n", []string{
			`node.yaml:4: profiles[0].name: must be a DNS label, lower-case letters, digits and dashes, at most 63, is "A.b"`,
			`node.yaml:5: ` + backend + `.name: must be a DNS label that starts with a letter, of lower-case letters, digits and dashes, at most 63, is "1b"`,
			`node.yaml:9: profiles[1].backends[1].name: "b" is already used by profiles[1].backends[0], on line 8`,
			`node.yaml:9: profiles[1].backends[1].featurePrefix: "c.d" is already used by profiles[1].backends[0], on line 8`,
			`node.yaml:12: profiles[1].resources[1].name: "e.x/g" is already used by profiles[1].resources[0], on line 11`,
			`node.yaml:14: profiles[1].resources[3].name: "e.x/{a}" is already used by profiles[1].resources[2], on line 13`,
			`node.yaml:15: profiles[1].resources[4].name: the placeholder that begins at "{a" is not closed by a brace`,
			`node.yaml:16: profiles[2].name: "a" is already used by profiles[1], on line 6`,
			`node.yaml:16: profiles[2].backends: at least one backend is required`,
		}},
		"annotation prefix": {with("", "annotationPrefix: nvidia.cdi.k8s.io/"), []string{`node.yaml:9: ` + resource + `.annotationPrefix: must be a DNS name without a slash, such as nvidia.cdi.k8s.io, at most 100 characters, is "nvidia.cdi.k8s.io/"`}},
		"annotations twice": {with("", "annotationPrefix: nvidia.cdi.k8s.io"), []string{`node.yaml:9: ` + resource + `.annotationPrefix: requires injection: cdi-annotations`}},
		"limit not shared":  {with("", "maxReplicasPerContainer: 1"), []string{"node.yaml:9: " + resource + ".maxReplicasPerContainer: has a meaning only with replicas of 2 or more"}},
		"command is a path": {with("command: ../bin/sh", ""), []string{`node.yaml:7: ` + backend + `.command: must be a file name in the backend directory, not a path, is "../bin/sh"`}},
		"checksum of another kind": {with("checksum: md5:d41d8cd98f00b204e9800998ecf8427e", ""), []string{
			`node.yaml:7: ` + backend + `.checksum: must be sha256: and the 64 lower-case hex digits that sha256sum prints for the program, is "md5:d41d8cd98f00b204e9800998ecf8427e"`,
		}},
		"command is an option": {with("command: -x", ""), []string{
			`node.yaml:7: ` + backend + `.command: must be a file name of letters, digits and . _ + -, not starting with a dot or a dash, at most 255 characters, is "-x"`,
		}},
		"env name": {with("env:\n  A-B: x", ""), []string{
			`node.yaml:8: ` + backend + `.env.A-B: the name of a variable must be letters, digits and underscores, not starting with a digit, is "A-B"`,
		}},
		"env of the handshake": {with("env: {PLUGIN_CLIENT_CERT: x}", ""), []string{
			`node.yaml:7: ` + backend + `.env.PLUGIN_CLIENT_CERT: PLUGIN_CLIENT_CERT is set by the core when it starts a backend`,
		}},
		"env too long": {with("env: {A: "+strings.Repeat("x", 32769)+"}", ""), []string{`node.yaml:7: ` + backend + `.env.A: the value is too long: 32769 bytes, at most 32768`}},
		"features": {with("features: [model, gpu.model, model, 4x]", ""), []string{
			`node.yaml:7: ` + backend + `.features[1]: ` + attribute + `"gpu.model"`,
			`node.yaml:7: ` + backend + `.features[2]: "model" is listed twice`,
			`node.yaml:7: ` + backend + `.features[3]: ` + attribute + `"4x"`,
		}},
		"feature prefixes": {with("featurePrefix: Example.com", ""), []string{
			`node.yaml:7: ` + backend + `.featurePrefix: must be a DNS name of lower-case letters, digits, dashes and dots, such as example.com, is "Example.com"`,
		}},
		"feature prefix of NFD": {with("featurePrefix: node.kubernetes.io", ""), []string{
			`node.yaml:7: ` + backend + `.featurePrefix: "node.kubernetes.io" is refused by Node Feature Discovery: below kubernetes.io it accepts only feature.node.kubernetes.io, profile.node.kubernetes.io and their subdomains`,
		}},
		"feature prefix of a backend": {with("featurePrefix: amd.accelmux.io", ""), []string{
			`node.yaml:7: ` + backend + `.featurePrefix: "amd.accelmux.io" is the default prefix of the backend with that name: omit it, or use a domain of your own`,
		}},
		"feature prefix too long": {with("featurePrefix: "+strings.Repeat("a.", 50)+"b", ""), []string{
			`node.yaml:7: ` + backend + `.featurePrefix: is too long: 101 characters, at most 100`,
		}},
		"vendor labels": {with("vendorLabels: [kubernetes.io, mock.accelmux.io, nvidia.com, nvidia.com]", ""), []string{
			`node.yaml:7: ` + backend + `.vendorLabels[0]: "kubernetes.io" is refused by Node Feature Discovery: below kubernetes.io it accepts only feature.node.kubernetes.io, profile.node.kubernetes.io and their subdomains`,
			`node.yaml:7: ` + backend + `.vendorLabels[3]: "nvidia.com" is already used by ` + backend + `.vendorLabels, on line 7`,
		}},
		"presets": {with("allow: {presets: [nvidia]}", ""), []string{
			`node.yaml:7: ` + backend + `.allow.presets: is gone: write declared: accept (the default for accelmux's own backends), or declared: refuse`,
		}},
		"acceptance": {with("allow: {declared: yes, env: ['*']}", ""), []string{
			`node.yaml:7: ` + backend + `.allow.declared: must be one of accept, refuse, is "yes"; write accept`,
			`node.yaml:7: ` + backend + `.allow.env[0]: must be the name of an environment variable, or a prefix and * for all names that begin with it, is "*"`,
		}},
		"sandbox": {with("sandbox: {mode: on, user: nobody, memory: 1Mi, pids: 1, cpuWeight: 0}\nallow: {process: {read: [lib], capabilities: [SYS_ADMIN], systemCalls: ['@rawio']}}", ""), []string{
			`node.yaml:7: ` + backend + `.sandbox.mode: must be one of auto, required, off, is "on"; write auto`,
			`node.yaml:7: ` + backend + `.sandbox.user: must be auto, root or the number of a user, 1 to 4294967294, is "nobody"`,
			`node.yaml:7: ` + backend + `.sandbox.memory: must be an amount of memory of at least 16Mi, such as 256Mi, or 0 for no limit, is "1Mi"`,
			`node.yaml:7: ` + backend + `.sandbox.pids: must be between 16 and 512, is 1`,
			`node.yaml:7: ` + backend + `.sandbox.cpuWeight: must be between 1 and 10000, is 0`,
			`node.yaml:8: ` + backend + `.allow.process.read[0]: must be an absolute path, is "lib"`,
			`node.yaml:8: ` + backend + `.allow.process.capabilities[0]: must be a capability such as CAP_SYS_ADMIN, is "SYS_ADMIN"`,
			`node.yaml:8: ` + backend + `.allow.process.systemCalls[0]: must be one of @aio, @chown, @clock, @debug, @file-system, @inotify, @ipc, @keyring, @module, @mount, @network-io, @pkey, @raw-io, @resources, is "@rawio"; did you mean "@raw-io"?`,
		}},
		"what nobody gets": {with("allow: {devices: [/dev/ng*, /dev/ng0n1, /dev/mem], mounts: [/run/containerd/*, /etc, /usr/lib/**, /run/udev, /var/run/udev/**, /run/udev/data], env: [LD_*], process: {read: [/etc/**], write: [/run/udev/rules.d/x], open: ['/dev/nbd*', /dev/nbd0]}}\nmanifestChecksum: abc", ""), []string{
			`node.yaml:7: ` + backend + `.allow.devices[0]: "/dev/ng*" stands for disks, which are given by exact paths alone: list each that is needed`,
			`node.yaml:7: ` + backend + `.allow.devices[2]: "/dev/mem" stands for /dev/mem, which is given to nobody`,
			`node.yaml:7: ` + backend + `.allow.mounts[0]: "/run/containerd/*" stands for /run/containerd/**, which is given to nobody`,
			`node.yaml:7: ` + backend + `.allow.mounts[1]: "/etc" stands for /etc/accelmux/**, which is given to nobody`,
			`node.yaml:7: ` + backend + `.allow.mounts[3]: "/run/udev" stands for /run/udev/control, which is given to nobody: udevd takes commands there, and runs its rules as root; for the properties of devices give /run/udev/data`,
			`node.yaml:7: ` + backend + `.allow.mounts[4]: "/var/run/udev/**" stands for /run/udev/control, which is given to nobody: udevd takes commands there, and runs its rules as root; for the properties of devices give /run/udev/data`,
			`node.yaml:7: ` + backend + `.allow.env[0]: "LD_*" stands for LD_*, which is given to nobody`,
			`node.yaml:7: ` + backend + `.allow.process.read[0]: "/etc/**" stands for /etc/accelmux/**, which is given to nobody`,
			`node.yaml:7: ` + backend + `.allow.process.write[0]: "/run/udev/rules.d/x" stands for /run/udev/**, which is given to nobody: udevd takes commands there, and runs its rules as root; for the properties of devices give /run/udev/data`,
			`node.yaml:7: ` + backend + `.allow.process.open[0]: "/dev/nbd*" stands for disks, which are given by exact paths alone: list each that is needed`,
			`node.yaml:8: ` + backend + `.manifestChecksum: must be sha256: and the 64 lower-case hex digits that accelmux backends prints for the manifest, is "abc"`,
		}},
		"interfaces": {with("allow: {netDevices: [can*, a/b]}", ""), []string{
			`node.yaml:7: ` + backend + `.allow.netDevices[1]: must be the name of a network interface, such as can0 or can*, is "a/b"`,
		}},
		"patterns": {with("allow:\n  devices: [null]\n  mounts: [lib, /a/../b, \"/a/**/b\", \"/a[\"]\n  hooks: [\"/\\e\", /a/, \"/a@sha256:1\", \"/a@sha256:0000000000000000000000000000000000000000000000000000000000000000\"]", ""), []string{
			`node.yaml:8: ` + backend + `.allow.devices[0]: must be a string, is empty`,
			`node.yaml:9: ` + backend + `.allow.mounts[0]: must be an absolute path, is "lib"`,
			`node.yaml:9: ` + backend + `.allow.mounts[1]: must be a clean path, without //, /./, /../ or a slash at the end: "/b"`,
			`node.yaml:9: ` + backend + `.allow.mounts[2]: ** may only be the last part, as in /dev/dri/**, is "/a/**/b"`,
			`node.yaml:9: ` + backend + `.allow.mounts[3]: is not a pattern of path.Match (is a bracket not closed, or a backslash at the end?): "/a["`,
			`node.yaml:10: ` + backend + `.allow.hooks[0]: must not contain control characters, is "/\x1b"`,
			`node.yaml:10: ` + backend + `.allow.hooks[1]: must be a clean path, without //, /./, /../ or a slash at the end: "/a"`,
			`node.yaml:10: ` + backend + `.allow.hooks[2]: must be sha256: and the 64 lower-case hex digits that sha256sum prints for the program, is "sha256:1"`,
		}},
		"parameters": {with("", "parameters:\n  4x: {value: a}\n  a: {}\n  b: {value: \"\", annotation: -, env: A-B}\n  c: {vlaue: a}\n  d: {value: \"a\\n\"}\n  e:\n  f: {value: "+strings.Repeat("x", 254)+"}"), []string{
			`node.yaml:10: ` + resource + `.parameters.4x: must be the name of a parameter, letters, digits and underscores, not starting with a digit, at most 32, is "4x"`,
			`node.yaml:11: ` + resource + `.parameters.a: needs at least one of value, annotation, env`,
			`node.yaml:12: ` + resource + `.parameters.b.annotation: "-" is not the key of an annotation, such as example.com/program: letters, digits, dashes, underscores and dots, at most 63, with a letter or digit at both ends, after a DNS name and a slash if there is one`,
			`node.yaml:12: ` + resource + `.parameters.b.env: the name of a variable must be letters, digits and underscores, not starting with a digit, is "A-B"`,
			`node.yaml:13: ` + resource + `.parameters.c.vlaue: unknown field "vlaue"; did you mean "value"?`,
			`node.yaml:14: ` + resource + `.parameters.d.value: the value must be UTF-8 without control characters, is "a\n"`,
			`node.yaml:15: ` + resource + `.parameters.e: must be a mapping with the fields value, annotation, env, is empty`,
			`node.yaml:16: ` + resource + `.parameters.f.value: the value is too long: 254 bytes, at most 253`,
		}},
		"parameters share a source": {with("", "parameters:\n  a: {annotation: e.x/a, env: A}\n  b: {annotation: e.x/a, env: A}\n  c: {annotation: e.x/a.main}"), []string{
			`node.yaml:11: ` + resource + `.parameters.b.annotation: "e.x/a" is already used by the parameter a`,
			`node.yaml:11: ` + resource + `.parameters.b.env: "A" is already used by the parameter a`,
			`node.yaml:12: ` + resource + `.parameters.c.annotation: "e.x/a.main" is the annotation of the parameter a for a container named "main"`,
		}},
		"too many parameters": {with("", "parameters: {"+manyParameters(33)+"}"), []string{
			`node.yaml:9: ` + resource + `.parameters: at most 32 parameters are possible, these are 33`,
		}},
		"unknown backend":               {with("", "backend: mokc"), []string{`node.yaml:9: ` + resource + `.backend: no backend "mokc" in this profile; did you mean "mock"?`}},
		"vendor labels of two backends": {header + "profiles:\n- name: a\n  backends:\n  - {name: b, featurePrefix: c.d}\n  - {name: c, vendorLabels: [c.d]}\n", []string{`node.yaml:7: profiles[0].backends[1].vendorLabels[0]: "c.d" is already used by profiles[0].backends[0], on line 6`}},
		"alias to itself":               {"a: &a [*a]\n", []string{"node.yaml:1: the file is nested more than 64 levels deep"}},
		"alias bomb":                    {bomb(), []string{"node.yaml:6: the file is more than 200000 values once aliases are expanded"}},
		"fat alias bomb":                {"a: &a " + strings.Repeat("x", 1<<19) + "\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n", []string{"node.yaml:2: the file is more than 4194304 bytes once aliases are expanded"}},
		"too deep":                      {strings.Repeat("[", 100) + strings.Repeat("]", 100) + "\n", []string{"node.yaml:1: the file is nested more than 64 levels deep"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			refused(t, tc.in, tc.want...)
		})
	}
}

// TestRefusedSelectors verifies that a selector that cannot work is refused
// when the configuration is loaded, on one line.
func TestRefusedSelectors(t *testing.T) {
	tests := map[string]struct{ selector, want string }{
		"syntax":                {`device.driver ==`, "is not a CEL expression: at column 17, something is missing at the end"},
		"quantities":            {`device.capacity["mock"].memory > quantity("9Gi")`, `is not a CEL expression: at column 32, a quantity is not compared by >: write device.capacity["mock"].memory.compareTo(quantity("9Gi")) > 0`},
		"a quantity and a text": {`device.capacity["mock"].memory != "8Gi"`, `is not a CEL expression: at column 32, a quantity is not compared by !=: write device.capacity["mock"].memory.compareTo(quantity("8Gi")) != 0`},
		"unknown name":          {`devise.driver == "mock"`, `is not a CEL expression: at column 1, there is no name devise; did you mean "device"?; a selector reads device.driver, device.attributes["DOMAIN"].NAME and device.capacity["DOMAIN"].NAME`},
		"unknown field":         {`device.attribute["mock"].model == "M1"`, `is not a CEL expression: at column 7, there is no field attribute; did you mean "attributes"?; a selector reads device.driver, `},
		"unknown function":      {`device.driver.startswith("m")`, `is not a CEL expression: at column 25, there is no function startswith; did you mean "startsWith"?`},
		"a name for a text":     {`device.attributes[mock].model == "M1"`, `is not a CEL expression: at column 19, mock is a text there: write ["mock"]`},
		"a bare quantity":       {`device.capacity["mock"].memory == 8Gi`, `is not a CEL expression: at column 35, a quantity is written quantity("8Gi")`},
		"no quantity":           {`device.capacity["mock"].memory.isGreaterThan(quantity("16GB"))`, `"16GB" is not a quantity: write 16Gi or 16G`},
		"no version":            {`device.attributes["mock"].v.isGreaterThan(semver("580"))`, `"580" is not a version: write three numbers, such as semver("1.2.3")`},
		"one =":                 {`device.driver = "mock"`, `is not a CEL expression: at column 15, "=" is no operator: write == to compare`},
		"three =":               {`device.driver === "mock"`, `is not a CEL expression: at column 15, "===" is no operator: write == to compare`},
		"a pattern":             {`device.driver =~ "m.*"`, `is not a CEL expression: at column 15, "=~" is no operator: write x.matches("...")`},
		"words":                 {`device.driver == "a" and true`, `is not a CEL expression: at column 22, "and" is no operator: write &&`},
		"one &":                 {`device.driver == "a & b" & true`, `is not a CEL expression: at column 26, "&" is no operator: write && for and`},
		"a quote":               {`device.driver == "mock`, `is not a CEL expression: at column 18, a text begins with " that no " closes: one is missing, there or before it`},
		"round quotes":          {`device.driver == “mock”`, `is not a CEL expression: at column 18, texts are in straight quotes: "..."`},
		"a bracket":             {`(device.driver == "mock"`, `is not a CEL expression: at column 1, "(" is not closed by ")"`},
		"a closing bracket":     {`device.driver == "mock")`, `is not a CEL expression: at column 24, ")" closes nothing`},
		"a list":                {`device.driver in ("a", "b")`, `is not a CEL expression: at column 15, a list is in brackets: x in ["a", "b"]`},
		"no operator":           {`device.driver "mock"`, `is not a CEL expression: at column 15, "\"mock\"" is not expected there: an operator such as == or && may be missing before it`},
		"different types":       {`device.driver == 1`, `is not a CEL expression: at column 15, a text and a whole number cannot stand at the sides of ==`},
		"too nested":            {strings.Repeat("(", 1000) + "true" + strings.Repeat(")", 1000), "is not a CEL expression: it is nested too deeply"},
		"not a boolean":         {`device.driver`, `is not a CEL expression: it must be true or false for a device, is a text: compare it, as in x == "..."`},
		"too long":              {`"` + strings.Repeat("x", 10240) + `" == device.driver`, "is too long: 10259 bytes, at most 10240"},
		"too expensive":         {`device.attributes["mock"].all(a, device.attributes["mock"].all(b, device.attributes["mock"].all(c, device.attributes["mock"].all(d, a + b + c + d != ""))))`, "may become too expensive: its cost is estimated at up to "},
		"unknown domain":        {`device.attributes["mok"].model == "M1"`, `no backend here is named "mok", as device.attributes["mok"] in the selector says; did you mean "mock"?`},
		"unknown domain, dots":  {`device.attributes.mok.model == "M1"`, `no backend here is named "mok", as device.attributes["mok"] in the selector says; did you mean "mock"?`},
		"no capacity":           {`device.capacity["accelmux.io"].x.isGreaterThan(quantity("0"))`, `no backend here is named "accelmux.io", as device.capacity["accelmux.io"] in the selector says; the names are mock`},
		"health":                {`has(device.attributes["accelmux.io"].health)`, `no attribute "health" in the domain "accelmux.io"; it has id, class, numaNode, pciBusID, parent, vendor, backendVersion`},
		"another kind":          {`device.attributes["resource.kubernetes.io"].numaNode == "0"`, `device.attributes["resource.kubernetes.io"].numaNode is a whole number, and is compared with a text: write device.attributes["resource.kubernetes.io"].numaNode == 0`},
		"in a binding":          {`cel.bind(a, device.attributes["xx"], a.b)`, `no backend here is named "xx", as device.attributes["xx"] in the selector says; the names are mock, accelmux.io`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("node.yaml", []byte(with("", "selector: |-\n  "+tc.selector)))
			want := "node.yaml:9: profiles[0].resources[0].selector: " + tc.want
			if err == nil || !strings.HasPrefix(withoutColumns(err), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestManyMistakes verifies that a file of another kind altogether does not fill
// a log.
func TestManyMistakes(t *testing.T) {
	var in strings.Builder
	for i := range 60 {
		fmt.Fprintf(&in, "zz%d: 1\n", i)
	}
	_, err := Parse("node.yaml", []byte(in.String()))
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != maxErrors+1 {
		t.Fatalf("got %d errors, want %d: %v", len(errs), maxErrors+1, err)
	}
	// 60 fields, and apiVersion, kind and profiles are missing.
	if got, want := errs[maxErrors].Error(), "node.yaml:48: and 13 more errors from here on"; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
}

// withoutColumns returns the text of an error without columns, which TestColumns verifies.
func withoutColumns(err error) string {
	return regexp.MustCompile(`(?m)^([a-z.]+:\d+):\d+: `).ReplaceAllString(err.Error(), "$1: ")
}

// TestColumns verifies that a field's column is that of its name, and that of an item its own; a missing field has that
// of the object.
func TestColumns(t *testing.T) {
	_, err := Parse("node.yaml", []byte("apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n- {name: a, backends: [{name: b, settings: {ü: [1, 07]}, heartbeat: 1}, {}]}\n"))
	want := []Position{{4, 52}, {4, 58}, {4, 73}}
	var got []Position
	var errs Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			got = append(got, e.Position)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || !strings.HasPrefix(err.Error(), `node.yaml:4:52: profiles[0].backends[0].settings["ü"][1]: `) {
		t.Errorf("positions (-want +got):\n%s\n%v", diff, err)
	}
}

func refused(t *testing.T, in string, want ...string) {
	t.Helper()
	c, err := Parse("node.yaml", []byte(in))
	if err == nil {
		t.Fatalf("accepted: %+v", c)
	}
	if diff := cmp.Diff(want, strings.Split(withoutColumns(err), "\n")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// bomb is nine aliases to nine aliases to nine aliases ...
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 9), ","))
	}
	return b.String()
}

// TestSyntaxErrorLines verifies that each kind of syntax error is named where the mistake is: the YAML library notices many of
// them later, and names what it expected.
func TestSyntaxErrorLines(t *testing.T) {
	for in, want := range map[string]string{
		"a: 1\nb:\n  - x\n y: 1\n":                  "node.yaml:4: this is not YAML: the line is indented by 1 space, and no line above it that it could belong to is",
		"a: 1\nb:\n  c: 2\n  d: 2\n   e: 3\nf: 1\n": "node.yaml:5: this is not YAML: the field is indented as if it belonged to the one before, which has a value already",
		"a: 1\nb: 2\n\tc: 3\n":                      "node.yaml:3: this is not YAML: the line begins with a tab: YAML is indented by spaces alone",
		"a:\n- b: \"x\n  c: 1\n- d: \"y\"\n":        "node.yaml:2: this is not YAML: the text that begins with \" is not closed by \"",
		"a: 'x\n  y'\nb: \"c\n":                     "node.yaml:3: this is not YAML: the text that begins with \" is not closed by \"",
		"a: \"x\" == y\n":                           "node.yaml:1: this is not YAML: something follows the text in quotes: put all of it in '",
		"a: b == \"c: d\"\n":                        `node.yaml:1: this is not YAML: a text with ": " must be in quotes as a whole`,
		"a:\n  b 2\n  c: 1\n":                       "node.yaml:2: this is not YAML: a colon is missing after b",
		"a: |\n  \"not: [a quote\nb: [c}\n":         `node.yaml:3: this is not YAML: "[" is closed by "]", not by "}"`,
		"a:\n  b: {c: 4\n  d:\n  - {f: g}\n":        `node.yaml:2: this is not YAML: "{" is not closed by "}", or a comma is missing`,
		"a: [b, c\nd: e\n":                          `node.yaml:1: this is not YAML: "[" is not closed by "]", or a comma is missing`,
		"{\"a\": \"b\" \"c\": \"d\"}\n":             "node.yaml:1: this is not YAML: a comma is missing after a text in quotes",
		"a: [*]\n":                                  "node.yaml:1: this is not YAML: a text that begins with * must be in quotes",
		"a: @b\n":                                   "node.yaml:1: this is not YAML: a text that begins with @ must be in quotes",
		"b: 1\na:\n- {model}/x\n":                   "node.yaml:3: this is not YAML: a text that begins with { must be in quotes",
		"b: 1\na: {model}.example.com/x\n":          "node.yaml:2: this is not YAML: a text that begins with { must be in quotes",
		"a: 1\nb: {c: d[\"e\"].f}\n":                "node.yaml:2: this is not YAML: within { } and [ ] a text with brackets or braces must be in quotes as a whole",
		"a: 1\nb: *nowhere\n":                       `node.yaml:2: this is not YAML: *nowhere stands for what &nowhere marks, which is not above; a text that begins with * must be in quotes`,
		"a: \x00\n":                                 "node.yaml: this is not a text file: control characters are not allowed",
	} {
		refused(t, in, want)
	}
}

// cpu is how long this process has run: a busy machine makes no difference.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// TestHostileSizes verifies that the time for a file that was made to be
// expensive grows with its size and not with the square of it, which would be a
// minute here.
func TestHostileSizes(t *testing.T) {
	const header = "apiVersion: accelmux.io/v1alpha1\nkind: NodeConfig\nprofiles:\n"
	for name, in := range map[string]string{
		"mistakes in many places": header + strings.Repeat("- {}\n", 90_000),
		"one name many times":     header + strings.Repeat("- {name: a, backends: [{}]}\n", 15_000),
		"nested without end":      strings.Repeat("{a: ", 250_000),
		"a long number":           header + "- {name: a, backends: [{name: b, settings: {n: !!int 1" + strings.Repeat("_9", 400_000) + "}}]}\n",
	} {
		start := cpu(t)
		if _, err := Parse("node.yaml", []byte(in)); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if took := cpu(t) - start; took > 30*time.Second {
			t.Errorf("%s: took %s", name, took)
		}
	}
}

// Verifies that the names by which a file is recognized as values of the chart are in the chart's.
func TestChartValues(t *testing.T) {
	data, err := os.ReadFile("../../deployments/helm/accelmux/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	values, _ := parsed(string(data)).(map[string]any)
	for _, name := range chartValues {
		if _, ok := values[name]; !ok {
			t.Errorf("the chart has no value %s", name)
		}
	}
}

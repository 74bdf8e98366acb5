package convert

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/suggestion"
)

// plugin has the names of what a device plugin is configured by.
type plugin struct {
	// flags have true for those that need no value, and env is the variables. ignored are notes
	// on those that have no counterpart.
	flags   map[string]bool
	env     []string
	ignored map[string]string
}

// given is what a source sets, by the names of flags and variables, and the notes on it.
type given struct {
	notes
	values map[string]string
	from   map[string]origin
	// all are all values of flags in their order.
	all map[string][]string
}

// read reads the flags and variables of a source.
func (p plugin) read(s Source) (*given, error) {
	g := &given{values: map[string]string{}, from: map[string]origin{}, all: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !slices.Contains(p.env, name) {
			if err := g.notVariable(name, "the plugin", p.env); err != nil {
				return nil, err
			}
			continue
		}
		g.values[name], g.from[name] = s.Env[name], variableOrigin(name)
	}
	for args := s.Args; len(args) > 0; {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		isBool, known := p.flags[name]
		if !known || !strings.HasPrefix(args[0], "-") {
			return nil, notFlag(args[0], slices.Sorted(maps.Keys(p.flags)))
		}
		args = args[1:]
		switch {
		case hasValue:
		case isBool:
			value = "true"
		case len(args) == 0:
			return nil, fmt.Errorf("flag --%s has no value", name)
		default:
			value, args = args[0], args[1:]
		}
		g.values[name], g.from[name] = value, flagOrigin(name)
		g.all[name] = append(g.all[name], value)
	}
	for _, name := range slices.Sorted(maps.Keys(g.values)) {
		if why := p.ignored[name]; why != "" {
			g.note("%s is not translated: %s.", name, why)
		}
	}
	return g, nil
}

// oneOf returns a value, without regard to case if fold is set; the first one allowed if there
// is none.
func (g *given) oneOf(name string, fold bool, allowed ...string) (string, error) {
	value := g.values[name]
	for _, a := range allowed {
		if a == value || fold && strings.EqualFold(a, value) {
			return a, nil
		}
	}
	if value == "" {
		return allowed[0], nil
	}
	return "", g.from[name].refuse("must be one of %s, is %q", strings.Join(allowed, ", "), value)
}

// serve is the node configuration with one backend.
func (g *given) serve(b map[string]any, resources ...map[string]any) ([]byte, []string, error) {
	return writeProfiles(g.notes, []profile{{Name: config.DefaultProfile, Backends: []map[string]any{b}, Resources: resources}})
}

// labelKinds are the flags of AMD's node labeller.
var labelKinds = []string{
	"mode", "firmware", "family", "driver-version", "driver-src-version", "device-id", "product-name", "vram", "simd-count", "cu-count",
	"compute-memory-partition", "compute-partitioning-supported", "memory-partitioning-supported",
}

const deviceCount = "AMD_GPU_DEVICE_COUNT"

// AMD translates the configuration of AMD's device plugin and node labeller for GPUs
// (https://github.com/ROCm/k8s-device-plugin, v1.31).
func AMD(s Source) ([]byte, []string, error) {
	p := plugin{
		flags: map[string]bool{"pulse": false, "driver_type": false, "resource_naming_strategy": false},
		env:   []string{deviceCount},
		ignored: map[string]string{
			"pulse":     "the health of GPUs is always monitored; settings.health.interval is how often counters are read",
			deviceCount: "a selector of the resource chooses GPUs, such as device.attributes[\"amd\"].uniqueID == \"…\"",
		},
	}
	for _, kind := range labelKinds {
		p.flags[kind] = true
	}
	var file struct {
		GPU struct {
			DeviceCount int `yaml:"device_count"`
		} `yaml:"gpu"`
	}
	s, err := deployed(s)
	if err != nil {
		return nil, nil, err
	}
	if len(s.File) > 0 {
		root, in, err := open(s, "")
		if err != nil {
			return nil, nil, err
		}
		if err := in.decode(root, "", &file); err != nil {
			return nil, nil, err
		}
	}
	g, err := p.read(s)
	if err != nil {
		return nil, nil, err
	}
	if file.GPU.DeviceCount > 0 {
		g.note("gpu.device_count is not translated: %s.", p.ignored[deviceCount])
	}
	switch mode, err := g.oneOf("driver_type", false, "container", "vf-passthrough", "pf-passthrough"); {
	case err != nil:
		return nil, g.notes, err
	case mode != "container":
		return nil, g.notes, g.from["driver_type"].refuse("%s is not offered: accelmux gives GPUs to containers, not to virtual machines", mode)
	}
	strategy, err := g.oneOf("resource_naming_strategy", false, "single", "mixed")
	if err != nil {
		return nil, nil, err
	}
	b := map[string]any{"name": "amd"}
	resources := []map[string]any{{"name": "amd.com/gpu"}}
	if strategy == "mixed" {
		b["settings"] = map[string]any{"partitions": map[string]any{"strategy": "mixed"}}
		resources = append([]map[string]any{{"name": "amd.com/{computePartition}_{memoryPartition}"}}, resources...)
	}
	if slices.ContainsFunc(labelKinds, func(kind string) bool { return g.values[kind] == "true" }) {
		b["vendorLabels"] = []string{"amd.com", "beta.amd.com"}
		g.note("All labels of the node labeller are published, and need nodeFeatures.publish: nfd of the chart, or --features-dir. Stop the node labeller.")
	}
	return g.serve(b, resources...)
}

// IntelFPGA translates the flags of Intel's device plugin for FPGAs
// (https://github.com/intel/intel-device-plugins-for-kubernetes, up to v0.32).
func IntelFPGA(s Source) ([]byte, []string, error) {
	p := plugin{
		flags: map[string]bool{"mode": false, "kubeconfig": false, "master": false, "debug": true, "v": false},
		env:   []string{"NODE_NAME"},
		ignored: map[string]string{
			"kubeconfig": "it is a flag of accelmux run", "master": "--kubeconfig of accelmux run has the server",
			"debug": "--log-level is a flag of accelmux run", "v": "--log-level is a flag of accelmux run",
			"NODE_NAME": "the chart sets --node-name",
		},
	}
	s, err := deployed(s)
	if err != nil {
		return nil, nil, err
	}
	if len(s.File) > 0 {
		return nil, nil, errors.New("the plugin has no configuration file: FILE can be its DaemonSet")
	}
	g, err := p.read(s)
	if err != nil {
		return nil, nil, err
	}
	mode, err := g.oneOf("mode", false, "af", "region", "regiondevel")
	if err != nil {
		return nil, nil, err
	}
	if mode == "regiondevel" {
		mode = "region-devel"
	}
	g.note("For nodes with the annotation fpga.intel.com/device-plugin-mode add a profile for each mode, with " +
		"nodeSelector: {matchAnnotations: {fpga.intel.com/device-plugin-mode: region}}.")
	if mode == "region" {
		g.note("To program regions set settings.bitstreams, and the parameter bitstream of the resource; the webhook and the OCI hook are not needed.")
	}
	resources := []map[string]any{{"name": "fpga.intel.com/{regionName}", "class": "region"}}
	if mode == "af" {
		resources = append([]map[string]any{{"name": "fpga.intel.com/{functionName}", "class": "af"}}, resources...)
	}
	return g.serve(map[string]any{"name": "fpga", "settings": map[string]any{"mode": mode, "drivers": []string{"dfl", "opae"}}}, resources...)
}

// XilinxFPGA translates the variables of AMD's (Xilinx's) device plugin for FPGAs
// (https://github.com/Xilinx/FPGA_as_a_Service, k8s-device-plugin 1.2).
func XilinxFPGA(s Source) ([]byte, []string, error) {
	const nameConvention, allocUnit, virtualDev, virtualNum, customize = "U30NameConvention", "U30AllocUnit", "VirtualDev", "VirtualNum", "DeviceNameCustomize"
	p := plugin{
		flags:   map[string]bool{"log-level": false},
		env:     []string{nameConvention, allocUnit, virtualDev, virtualNum, customize},
		ignored: map[string]string{"log-level": "it is a flag of accelmux run"},
	}
	s, err := deployed(s)
	if err != nil {
		return nil, nil, err
	}
	if len(s.File) > 0 {
		return nil, nil, errors.New("NameCustomize.json is not translated: name resources in the node configuration, by selectors and placeholders")
	}
	g, err := p.read(s)
	if err != nil {
		return nil, nil, err
	}
	// As in the plugin an unknown value is the default.
	unit, _ := g.oneOf(allocUnit, true, "Card", "Device")
	names, _ := g.oneOf(nameConvention, true, "CommonName", "ExactName")
	settings := map[string]any{"drivers": []string{"xrt", "ama"}, "management": true}
	g.note("settings.management gives containers the nodes by which a card is flashed, as the plugin does; leave it out if they do not need them.")
	if unit != "Device" {
		settings["xrt"] = map[string]any{"unit": "board"}
	}
	resources := []map[string]any{{"name": "amd.com/{platformName}", "class": "card"}}
	if names != "ExactName" {
		resources = append([]map[string]any{{"name": "amd.com/{commonName}", "class": "card"}}, resources...)
	}
	if strings.EqualFold(g.values[customize], "true") {
		g.note("%s is not translated: name resources in the node configuration, by selectors and placeholders.", customize)
	}
	if strings.EqualFold(g.values[virtualDev], "true") {
		n, err := strconv.Atoi(g.values[virtualNum])
		if err != nil || n < 1 {
			return nil, g.notes, variableOrigin(virtualNum).refuse("must be a number above 0, is %q", g.values[virtualNum])
		}
		n = g.shares(virtualNum, n)
		for _, r := range resources {
			r["replicas"] = n
		}
		g.note("A container gets one of the shared cards, not all cards of the node.")
	}
	return g.serve(map[string]any{"name": "fpga", "settings": settings}, resources...)
}

// notVariable notes a variable that the plugin, called who, does not know, as the containers of a DaemonSet have others, too. It
// is an error if one of its variables is meant.
func (n *notes) notVariable(name, who string, known []string) error {
	near := suggestion.DidYouMean(name, known)
	if slices.ContainsFunc(known, func(other string) bool { return suggestion.IsMisspelt(name, other) }) {
		return fmt.Errorf("variable %s: it is not one of %s%s", name, who, near)
	}
	n.note("%s is not a variable of %s%s", strconv.QuoteToASCII(name), who, cmp.Or(near, "."))
	return nil
}

// notFlag returns the error for an argument that is none of the plugin's flags.
func notFlag(arg string, flags []string) error {
	if !strings.HasPrefix(arg, "-") {
		return fmt.Errorf("%q is not a flag of the plugin; FILE goes before --", arg)
	}
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return fmt.Errorf("%q is not a flag of the plugin%s", arg, suggestion.DidYouMean(name, flags))
}

package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of an option's value.
type kind int

const (
	text kind = iota
	truth
	list
	// part is a field in the file that is read with its section.
	part
)

// option is a field of the plugin's configuration file, with its names on the command line and
// in the environment.
type option struct {
	path  string
	flags []string
	env   []string
	kind  kind
	// note is why the option has no counterpart; "" if it has one.
	note string
}

// options are those of k8s-device-plugin and gpu-feature-discovery v0.20.0 (api/config/v1, and
// the flags in cmd).
var options = []option{
	{path: "version", kind: part},
	{path: "flags.migStrategy", flags: []string{"mig-strategy"}, env: []string{"MIG_STRATEGY"}},
	{
		path: "flags.failOnInitError", flags: []string{"fail-on-init-error"}, env: []string{"FAIL_ON_INIT_ERROR"}, kind: truth,
		note: "accelmux does not end without a driver: it waits for one and reports a problem",
	},
	{
		path: "flags.mpsRoot", flags: []string{"mps-root"}, env: []string{"MPS_ROOT"},
		note: "the directories of MPS are below settings.mps.dir of the backend",
	},
	{path: "flags.nvidiaDriverRoot", flags: []string{"driver-root", "nvidia-driver-root"}, env: []string{"NVIDIA_DRIVER_ROOT"}},
	{path: "flags.nvidiaDevRoot", flags: []string{"dev-root", "nvidia-dev-root"}, env: []string{"NVIDIA_DEV_ROOT"}},
	{path: "flags.gdrcopyEnabled", flags: []string{"gdrcopy-enabled"}, env: []string{"GDRCOPY_ENABLED"}, kind: truth},
	{path: "flags.gdsEnabled", flags: []string{"gds-enabled"}, env: []string{"GDS_ENABLED"}, kind: truth},
	{path: "flags.mofedEnabled", flags: []string{"mofed-enabled"}, env: []string{"MOFED_ENABLED"}, kind: truth},
	{
		path: "flags.useNodeFeatureAPI", flags: []string{"use-node-feature-api"}, env: []string{"USE_NODE_FEATURE_API", "GFD_USE_NODE_FEATURE_API"}, kind: truth,
		note: "labels go through Node Feature Discovery's file: set nodeFeatures.publish: nfd of the chart, or --features-dir",
	},
	{path: "flags.deviceDiscoveryStrategy", flags: []string{"device-discovery-strategy"}, env: []string{"DEVICE_DISCOVERY_STRATEGY"}},
	{path: "flags.plugin.passDeviceSpecs", flags: []string{"pass-device-specs"}, env: []string{"PASS_DEVICE_SPECS"}, kind: truth},
	{path: "flags.plugin.deviceListStrategy", flags: []string{"device-list-strategy"}, env: []string{"DEVICE_LIST_STRATEGY"}, kind: list},
	{path: "flags.plugin.deviceIDStrategy", flags: []string{"device-id-strategy"}, env: []string{"DEVICE_ID_STRATEGY"}},
	{path: "flags.plugin.cdiAnnotationPrefix", flags: []string{"cdi-annotation-prefix"}, env: []string{"CDI_ANNOTATION_PREFIX"}},
	{path: "flags.plugin.nvidiaCTKPath", flags: []string{"nvidia-cdi-hook-path", "nvidia-ctk-path"}, env: []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}},
	{path: "flags.plugin.containerDriverRoot", flags: []string{"driver-root-ctr-path", "container-driver-root"}, env: []string{"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}},
	{path: "flags.gfd.oneshot", flags: []string{"oneshot"}, env: []string{"GFD_ONESHOT"}, kind: truth, note: "labels are kept up to date while accelmux runs"},
	{path: "flags.gfd.noTimestamp", flags: []string{"no-timestamp"}, env: []string{"GFD_NO_TIMESTAMP"}, kind: truth},
	{path: "flags.gfd.sleepInterval", flags: []string{"sleep-interval"}, env: []string{"GFD_SLEEP_INTERVAL"}, note: "labels follow changes at once"},
	{path: "flags.gfd.outputFile", flags: []string{"output-file"}, env: []string{"GFD_OUTPUT_FILE"}, note: "--features-dir is the directory of the file, nodeFeatures of the chart sets it"},
	{path: "flags.gfd.machineTypeFile", flags: []string{"machine-type-file"}, env: []string{"GFD_MACHINE_TYPE_FILE"}, note: "the machine is read from sysfs (class/dmi/id/product_name)"},
	{path: "flags.gfd.imexNodesConfigFile", flags: []string{"imex-nodes-config-file"}, env: []string{"GFD_IMEX_NODES_CONFIG_FILE"}, note: "the label gpu.imex-domain is not offered"},
	{path: "imex.channelIDs", flags: []string{"imex-channel-ids"}, env: []string{"IMEX_CHANNEL_IDS"}, kind: list},
	{path: "imex.required", flags: []string{"imex-required"}, env: []string{"IMEX_REQUIRED"}, kind: truth},
	{flags: []string{"kubelet-socket"}, env: []string{"KUBELET_SOCKET"}, path: "--kubelet-socket", note: "--kubelet-dir of accelmux run, or hostPaths.kubelet of the chart, is kubelet's directory"},
	{flags: []string{"cdi-feature-flags"}, env: []string{"CDI_FEATURE_FLAGS"}, path: "--cdi-feature-flags", kind: list, note: "settings.edits.disabledHooks leaves out hooks; there are no other flags"},
	{path: disableHealth, env: []string{disableHealth}},
	{path: enableHealth, env: []string{enableHealth}},
	{path: "resources", kind: part, note: "k8s-device-plugin ignores it; name resources in the node configuration"},
	{path: "health", kind: part},
	{path: "sharing", kind: part},
}

// Variables that the backend knows by the same names.
const (
	disableHealth = "DP_DISABLE_HEALTHCHECKS"
	enableHealth  = "DP_ENABLE_HEALTHCHECKS"
)

// find returns the option that a test selects, or nil.
func find(test func(o *option) bool) *option {
	for i := range options {
		if test(&options[i]) {
			return &options[i]
		}
	}
	return nil
}

// values are the options that are set, by path.
type values map[string]any

func (v values) text(path string) string   { s, _ := v[path].(string); return s }
func (v values) truth(path string) bool    { b, _ := v[path].(bool); return b }
func (v values) list(path string) []string { l, _ := v[path].([]string); return l }

// set sets an option to a value from the file, or to a text. A list on the command line may come
// in several parts: more adds to the list.
func (v values) set(o *option, raw any, more bool) error {
	switch o.kind {
	case truth:
		b, err := strconv.ParseBool(fmt.Sprint(raw))
		if err != nil {
			return fmt.Errorf("%s must be true or false, is %v", o.path, raw)
		}
		v[o.path] = b
	case list:
		var all []string
		if more {
			all = v.list(o.path)
		}
		items, ok := raw.([]any)
		if !ok {
			for _, item := range strings.Split(fmt.Sprint(raw), ",") {
				items = append(items, strings.TrimSpace(item))
			}
		}
		for _, item := range items {
			all = append(all, fmt.Sprint(item))
		}
		v[o.path] = all
	default:
		if _, isText := raw.(string); !isText {
			return fmt.Errorf("%s must be a text, is %v", o.path, raw)
		}
		v[o.path] = raw
	}
	return nil
}

// readFile sets what the file has, and returns the paths of fields that the plugin does not know.
func (v values) readFile(at string, node map[string]any) (unknown []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(node)) {
		path := strings.TrimPrefix(at+"."+name, ".")
		o := find(func(o *option) bool { return o.path == path })
		section, isSection := node[name].(map[string]any)
		switch {
		case o != nil && o.kind == part:
			v[path] = node[name]
		case node[name] == nil:
		case o != nil:
			err = v.set(o, node[name], false)
		case isSection && find(func(o *option) bool { return strings.HasPrefix(o.path, path+".") }) != nil:
			var more []string
			more, err = v.readFile(path, section)
			unknown = append(unknown, more...)
			if path == "flags.gfd" {
				v[path] = true
			}
		default:
			unknown = append(unknown, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

// readEnv sets what the environment has, and returns names that the plugin does not know.
func (v values) readEnv(env map[string]string) (unknown []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		o := find(func(o *option) bool { return slices.Contains(o.env, name) })
		switch {
		case o == nil:
			unknown = append(unknown, name)
			continue
		case env[name] == "" && o.kind != text:
			continue // as in the plugin
		}
		if err := v.set(o, env[name], false); err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
		if strings.HasPrefix(name, "GFD_") {
			v["flags.gfd"] = true
		}
	}
	return unknown, nil
}

// readArgs sets what the command line has.
func (v values) readArgs(args []string) error {
	seen := map[string]bool{}
	for len(args) > 0 {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		o := find(func(o *option) bool { return slices.Contains(o.flags, name) })
		if o == nil || !strings.HasPrefix(args[0], "-") {
			var flags []string
			for _, o := range options {
				flags = append(flags, o.flags...)
			}
			return notFlag(args[0], flags)
		}
		args = args[1:]
		switch {
		case hasValue:
		case o.kind == truth:
			value = "true"
		case len(args) == 0:
			return fmt.Errorf("flag --%s has no value", name)
		default:
			value, args = args[0], args[1:]
		}
		if err := v.set(o, value, seen[o.path]); err != nil {
			return fmt.Errorf("flag --%s: %w", name, err)
		}
		seen[o.path] = true
	}
	return nil
}

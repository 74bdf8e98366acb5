package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
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
	{path: "flags.migStrategy", flags: []string{"mig-strategy"}, env: []string{"MIG_STRATEGY", "GFD_MIG_STRATEGY"}},
	{
		path: "flags.failOnInitError", flags: []string{"fail-on-init-error"}, env: []string{"FAIL_ON_INIT_ERROR", "GFD_FAIL_ON_INIT_ERROR"}, kind: truth,
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
	{path: allocationPolicy, flags: []string{"shared-devices-allocation-policy"}, env: []string{"SHARED_DEVICES_ALLOCATION_POLICY"}},
	{path: "flags.gfd.oneshot", flags: []string{"oneshot"}, env: []string{"GFD_ONESHOT"}, kind: truth, note: "labels are kept up to date while accelmux runs"},
	{path: "flags.gfd.noTimestamp", flags: []string{"no-timestamp"}, env: []string{"GFD_NO_TIMESTAMP"}, kind: truth},
	{path: "flags.gfd.sleepInterval", flags: []string{"sleep-interval"}, env: []string{"GFD_SLEEP_INTERVAL"}, note: "labels follow changes at once"},
	{path: "flags.gfd.outputFile", flags: []string{"output-file", "output", "o"}, env: []string{"GFD_OUTPUT_FILE"}, note: "--features-dir is the directory of the file, nodeFeatures of the chart sets it"},
	{path: "flags.gfd.machineTypeFile", flags: []string{"machine-type-file"}, env: []string{"GFD_MACHINE_TYPE_FILE"}, note: "the machine is read from sysfs (class/dmi/id/product_name)"},
	{path: "flags.gfd.imexNodesConfigFile", flags: []string{"imex-nodes-config-file"}, env: []string{"GFD_IMEX_NODES_CONFIG_FILE"}, note: "the label gpu.imex-domain is not offered"},
	{path: "imex.channelIDs", flags: []string{"imex-channel-ids"}, env: []string{"IMEX_CHANNEL_IDS"}, kind: list},
	{path: "imex.required", flags: []string{"imex-required"}, env: []string{"IMEX_REQUIRED"}, kind: truth},
	{flags: []string{"kubelet-socket"}, env: []string{"KUBELET_SOCKET"}, path: "--kubelet-socket", note: "hostPaths.devicePlugins of the chart is the directory of kubelet's socket, and --kubelet-dir of accelmux run is the parent of that directory"},
	{flags: []string{"cdi-feature-flags"}, env: []string{"CDI_FEATURE_FLAGS"}, path: "--cdi-feature-flags", kind: list, note: "libnvsandboxutils is never used, and the other flags have no counterpart"},
	{flags: []string{"cdi-disable-hooks"}, env: []string{"CDI_DISABLE_HOOKS"}, path: disableHooks, kind: list},
	{flags: []string{"config-file"}, env: []string{"CONFIG_FILE", "GFD_CONFIG_FILE"}, path: "--config-file", note: "give the file as FILE"},
	{flags: []string{"kubeconfig"}, env: []string{"KUBECONFIG"}, path: "--kubeconfig", note: noAPI},
	{flags: []string{"kube-api-qps"}, env: []string{"KUBE_API_QPS"}, path: "--kube-api-qps", note: noAPI},
	{flags: []string{"kube-api-burst"}, env: []string{"KUBE_API_BURST"}, path: "--kube-api-burst", note: noAPI},
	{flags: []string{"namespace"}, env: []string{"NAMESPACE"}, path: "--namespace", note: noAPI},
	{flags: []string{"node-name"}, env: []string{"NODE_NAME"}, path: "--node-name", note: noAPI},
	{path: disableHealth, env: []string{disableHealth}},
	{path: enableHealth, env: []string{enableHealth}},
	{path: "resources", kind: part, note: "k8s-device-plugin ignores it; name resources in the node configuration"},
	{path: "health", kind: part},
	{path: "sharing", kind: part},
}

// noAPI is the note of options for NodeFeature objects.
const noAPI = "gpu-feature-discovery needs it for the API server, and labels go through Node Feature Discovery's file here"

// Paths of options that several functions use.
const (
	allocationPolicy = "flags.plugin.sharedDevicesAllocationPolicy"
	disableHooks     = "--cdi-disable-hooks"
)

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
type values map[string]value

// value is one of them: a text, a truth, a list, or the node of a section that is read later.
type value struct {
	text  string
	truth bool
	list  []string
	part  *yaml.Node
	from  origin
}

func (v values) text(path string) string   { return v[path].text }
func (v values) truth(path string) bool    { return v[path].truth }
func (v values) list(path string) []string { return v[path].list }

// refuse returns the error of an option.
func (v values) refuse(path, format string, args ...any) error {
	return v[path].from.refuse(format, args...)
}

// set sets an option to a text. A list on the command line may come in several parts: more adds to the list.
func (v values) set(o *option, raw string, from origin, more bool) error {
	one := value{text: raw, from: from}
	switch o.kind {
	case truth:
		var err error
		if one.truth, err = strconv.ParseBool(raw); err != nil {
			return from.refuse("must be true or false, is %q", raw)
		}
	case list:
		if more {
			one.list = v.list(o.path)
		}
		for _, item := range strings.Split(raw, ",") {
			one.list = append(one.list, strings.TrimSpace(item))
		}
	}
	v[o.path] = one
	return nil
}

// setNode sets an option to a value of the file.
func (v values) setNode(o *option, n *yaml.Node, from origin) error {
	switch {
	case o.kind == list && n.Kind == yaml.SequenceNode:
		one := value{from: from}
		for _, item := range n.Content {
			one.list = append(one.list, item.Value)
		}
		v[o.path] = one
		return nil
	case n.Kind != yaml.ScalarNode, o.kind == text && n.ShortTag() != "!!str":
		return from.refuse("must be %s", [...]string{text: "a text", truth: "true or false", list: "a list"}[o.kind])
	}
	return v.set(o, n.Value, from, false)
}

// readFile sets what the file has, and returns the fields that the plugin does not know.
func (v values) readFile(in input, at string, n *yaml.Node) (unknown []origin, err error) {
	if n.Kind != yaml.MappingNode {
		return nil, in.refuse(at, "must be a mapping")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && err == nil; i += 2 {
		key, item := n.Content[i], n.Content[i+1]
		for item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		path := config.FieldPath(at, key.Value)
		from := origin{in.file, config.PositionOf(key), path}
		if seen[key.Value] {
			return nil, from.refuse("set twice")
		}
		seen[key.Value] = true
		o := find(func(o *option) bool { return o.path == path })
		switch {
		case o != nil && o.kind == part:
			v[path] = value{text: item.Value, part: item, from: from}
		case item.ShortTag() == "!!null":
		case o != nil:
			err = v.setNode(o, item, from)
		case item.Kind == yaml.MappingNode && find(func(o *option) bool { return strings.HasPrefix(o.path, path+".") }) != nil:
			var more []origin
			more, err = v.readFile(in, path, item)
			unknown = append(unknown, more...)
			if path == "flags.gfd" {
				v[path] = value{truth: true, from: from}
			}
		default:
			unknown = append(unknown, from)
		}
	}
	return unknown, err
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
		if err := v.set(o, env[name], variableOrigin(name), false); err != nil {
			return nil, err
		}
		if strings.HasPrefix(name, "GFD_") {
			v["flags.gfd"] = value{truth: true, from: variableOrigin(name)}
		}
	}
	return unknown, nil
}

// variableNames are all variables, fieldNames all fields of the file.
func variableNames() (all []string) {
	for _, o := range options {
		all = append(all, o.env...)
	}
	return all
}

func fieldNames() (all []string) {
	for _, o := range options {
		all = append(all, o.path)
	}
	return all
}

// readArgs sets what the command line has.
func (v values) readArgs(args []string) error {
	seen := map[string]bool{}
	for len(args) > 0 {
		name, text, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
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
			text = "true"
		case len(args) == 0:
			return fmt.Errorf("flag --%s has no value", name)
		default:
			text, args = args[0], args[1:]
		}
		if err := v.set(o, text, flagOrigin(name), seen[o.path]); err != nil {
			return err
		}
		seen[o.path] = true
	}
	return nil
}

func variableOrigin(name string) origin { return origin{file: "variable " + name} }
func flagOrigin(name string) origin     { return origin{file: "flag --" + name} }

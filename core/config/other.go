package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// StandardInput is the name of a file that is read from there.
const StandardInput = "standard input"

// otherDocument returns what to do with a document that is no node configuration but has one, such as a ConfigMap or the chart's
// values, or has one of another device plugin, also in an object of Kubernetes or a list of one; "" if its fields do not show
// that.
func otherDocument(file string, document any) string {
	object, _ := document.(map[string]any)
	if items, ok := object["items"].([]any); ok && object["kind"] == "List" && len(items) == 1 {
		object, _ = items[0].(map[string]any)
	}
	if file == StandardInput {
		file = "-"
	}
	if own := object["config"]; own != nil && object["apiVersion"] == nil && object["profiles"] == nil {
		if text, isText := own.(string); isText {
			own = parsed(text)
		}
		if fields, ok := own.(map[string]any); ok && (fields["kind"] == Kind || fields["profiles"] != nil) {
			return fmt.Sprintf("these are values of the chart: check their field config: `yq .config %s | accelmux validate -`", file)
		}
	}
	if object["apiVersion"] == nil && object["kind"] == nil && object["profiles"] == nil && slices.ContainsFunc(chartValues, func(name string) bool { return object[name] != nil }) {
		return fmt.Sprintf("these are values of the chart without its field config: check what helm makes of them: `helm template CHART -f %s -s templates/configmap.yaml | yq '.data[\"node.yaml\"]' | accelmux validate -`", file)
	}
	plugin := ""
	switch object["kind"] {
	case "ConfigMap":
		values, _ := object["data"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text, _ := values[key].(string)
			value := parsed(text)
			if fields, ok := value.(map[string]any); ok && fields["kind"] == Kind {
				metadata, _ := object["metadata"].(map[string]any)
				return fmt.Sprintf("this is a ConfigMap: check its value: `kubectl get configmap %v -o jsonpath='{.data.%s}' | accelmux validate -`",
					cmp.Or(metadata["name"], any("NAME")), strings.ReplaceAll(key, ".", `\.`))
			}
			plugin = cmp.Or(plugin, pluginOf(value))
		}
	case "KubeVirt":
		plugin = "kubevirt"
	case "NicClusterPolicy", "NicNodePolicy": // of NVIDIA's network operator
		spec, _ := object["spec"].(map[string]any)
		for _, section := range []struct{ name, plugin string }{
			{"rdmaSharedDevicePlugin", "rdma-shared-device-plugin"}, {"sriovDevicePlugin", "sriov-device-plugin"},
		} {
			if spec[section.name] != nil {
				plugin = cmp.Or(plugin, section.plugin)
			}
		}
	case nil:
		plugin = pluginOf(document)
	}
	if plugin == "" {
		if kind, isText := object["kind"].(string); isText && object["profiles"] == nil && kind != Kind && object["apiVersion"] != APIVersion {
			return fmt.Sprintf("this is a %s of %v, and not a node configuration, which starts with apiVersion: %s and kind: %s", show(kind), object["apiVersion"], APIVersion, Kind)
		}
		return ""
	}
	return fmt.Sprintf("this is a configuration of another device plugin: `accelmux convert %s %s` translates it", plugin, file)
}

// chartValues are values of the chart that no other configuration has at its top.
var chartValues = []string{
	"image", "imagePullSecrets", "configCheck", "networkPolicy", "podMonitor", "serviceMonitor", "deviceClasses", "extraBackends", "backendContainers",
	"hostPID", "nvidiaMPS", "extraVolumes", "extraEnv", "extraArgs", "serviceAccount", "rbac", "affinity", "tolerations", "webhook", "podAnnotations",
}

// parsed returns a text that is YAML as encoding/json has it; nil for another.
func parsed(text string) any {
	d := newDecoder("")
	if root := d.document([]byte(text)); root != nil {
		return d.any(root, Position{}, "")
	}
	return nil
}

// pluginOf returns the name that accelmux convert has for the plugin whose configuration a document is.
func pluginOf(document any) string {
	if list, ok := document.([]any); ok && len(list) > 0 {
		if first, ok := list[0].(map[string]any); ok && first["devicematch"] != nil {
			return "smarter-device-manager"
		}
	}
	fields, _ := document.(map[string]any)
	has := func(field string) bool { _, ok := fields[field]; return ok }
	for _, plugin := range []struct {
		name string
		all  []string
		any  []string
	}{
		{"nvidia-device-plugin", []string{"version"}, []string{"flags", "resources", "sharing", "imex"}},
		{"amd-device-plugin", []string{"gpu"}, nil},
		{"sriov-device-plugin", []string{"resourceList"}, nil},
		{"rdma-shared-device-plugin", []string{"configList"}, nil},
		{"generic-device-plugin", []string{"devices"}, nil},
		{"generic-device-plugin", []string{"genericDevicePlugin"}, nil}, // MicroShift's configuration
		{"kubevirt", []string{"permittedHostDevices"}, nil},
	} {
		if !slices.ContainsFunc(plugin.all, func(f string) bool { return !has(f) }) && (plugin.any == nil || slices.ContainsFunc(plugin.any, has)) && !has("apiVersion") {
			return plugin.name
		}
	}
	return ""
}

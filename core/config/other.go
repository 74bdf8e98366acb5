package validate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/core/config"
)

// other returns what to do with a file that is no node configuration but has one, or has one of another device plugin,
// such as in a ConfigMap, in KubeVirt's object or in a list of one object; "" if its fields do not show that.
func other(file string, data []byte) string {
	var document any
	if yaml.Unmarshal(data, &document) != nil {
		return ""
	}
	object, _ := document.(map[string]any)
	if items, ok := object["items"].([]any); ok && object["kind"] == "List" && len(items) == 1 {
		object, _ = items[0].(map[string]any)
	}
	plugin := ""
	switch object["kind"] {
	case "ConfigMap":
		values, _ := object["data"].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			text, _ := values[key].(string)
			var value any
			if yaml.Unmarshal([]byte(text), &value) != nil {
				continue
			}
			if fields, ok := value.(map[string]any); ok && fields["kind"] == config.Kind {
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
		return ""
	}
	if file == StandardInput {
		file = "-"
	}
	return fmt.Sprintf("this is a configuration of another device plugin: `accelmux convert %s %s` translates it", plugin, file)
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

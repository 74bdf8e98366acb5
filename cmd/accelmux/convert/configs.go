package convert

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
)

// configLabel is the node's label by which NVIDIA's config-manager chooses a configuration of a
// ConfigMap.
const configLabel = "nvidia.com/device-plugin.config"

// namedConfig is a configuration of a ConfigMap, and where its name is.
type namedConfig struct {
	name string
	root *yaml.Node
	input
	key origin
}

// configsOf returns the configurations of a file in their order: those of a ConfigMap, or the file itself without a
// name; nil if there is no file.
func configsOf(s Source) ([]namedConfig, error) {
	if len(bytes.TrimSpace(s.File)) == 0 {
		return nil, nil
	}
	root, in, err := document(s)
	if err != nil {
		return nil, err
	}
	if kindOf(root) != "ConfigMap" {
		return []namedConfig{{root: root, input: in}}, nil
	}
	data := field(root, "data")
	if data == nil || data.Kind != yaml.MappingNode || len(data.Content) == 0 {
		return nil, in.refuse("data", "the ConfigMap has no configuration")
	}
	var all []namedConfig
	for i := 0; i+1 < len(data.Content); i += 2 {
		key, value := data.Content[i], data.Content[i+1]
		at := origin{s.Name, config.PositionOf(key), config.FieldPath("data", key.Value)}
		if value.Kind != yaml.ScalarNode {
			return nil, at.refuse("it must be the text of a configuration")
		}
		root, inner, err := in.inner(fmt.Sprintf("data[%q]", key.Value), value)
		if err != nil {
			return nil, err
		}
		all = append(all, namedConfig{key.Value, root, inner, at})
	}
	return all, nil
}

// nvidiaConfigs translates the configurations of a ConfigMap, each into a profile that applies to
// the nodes with its label. The one called default, or the only one, applies to the others.
func nvidiaConfigs(s Source, configs []namedConfig) ([]byte, []string, error) {
	var profiles []profile
	var all notes
	hasDefault := len(configs) == 1
	for _, c := range configs {
		converted, err := convertNVIDIA(s, &c)
		for _, n := range converted.notes {
			all.note("%s: %s", c.name, n)
		}
		if err != nil {
			return nil, all, err
		}
		p := converted.profile()
		if c.name != config.DefaultProfile && len(configs) > 1 {
			p.Name = strings.Trim(notInKind.ReplaceAllString(strings.ToLower(c.name), "-"), "-")
			p.NodeSelector = &nodeSelector{map[string]string{configLabel: c.name}}
		}
		p.origins[""], p.origins["name"] = c.key, c.key
		hasDefault = hasDefault || c.name == config.DefaultProfile
		profiles = append(profiles, p)
	}
	if len(configs) > 1 {
		all.note("Each profile applies to the nodes with its label %s; --kubeconfig of accelmux run, or the chart, reads the labels. The config-manager is not needed.", configLabel)
	}
	if !hasDefault {
		all.note("No profile applies to nodes without the label: rename that of the config-manager's default to default, and take its nodeSelector out.")
	}
	return writeProfiles(all, profiles)
}

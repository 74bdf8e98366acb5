package convert

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/accelmux/accelmux/core/config"
)

// configLabel is the node's label by which NVIDIA's config-manager chooses a configuration of a
// ConfigMap.
const configLabel = "nvidia.com/device-plugin.config"

// namedConfig is a configuration of a ConfigMap.
type namedConfig struct{ name, text string }

// configsOf returns the configurations of a ConfigMap in their order; nil if a file is none.
func configsOf(s Source) ([]namedConfig, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(s.File, &root); err != nil || len(root.Content) == 0 {
		return nil, nil //nolint:nilerr // the conversion reports what is wrong
	}
	if kind := field(root.Content[0], "kind"); kind == nil || kind.Value != "ConfigMap" {
		return nil, nil
	}
	data := field(root.Content[0], "data")
	if data == nil || data.Kind != yaml.MappingNode || len(data.Content) == 0 {
		return nil, config.Error{File: s.Name, Position: config.PositionOf(root.Content[0]), Field: "data", Message: "the ConfigMap has no configuration"}
	}
	var all []namedConfig
	for i := 0; i+1 < len(data.Content); i += 2 {
		name, value := data.Content[i], data.Content[i+1]
		if value.Kind != yaml.ScalarNode {
			return nil, config.Error{File: s.Name, Position: config.PositionOf(value), Field: "data." + name.Value, Message: "it must be the text of a configuration"}
		}
		all = append(all, namedConfig{name.Value, value.Value})
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
		one := s
		one.File = []byte(c.text)
		converted, err := convertNVIDIA(one)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", c.name, err)
		}
		for _, n := range converted.notes {
			all.note("%s: %s", c.name, n)
		}
		p := profile{Name: config.DefaultProfile, Backends: []backend{converted.backend}, Resources: converted.resources}
		if c.name != config.DefaultProfile && len(configs) > 1 {
			p.Name = strings.Trim(notInKind.ReplaceAllString(strings.ToLower(c.name), "-"), "-")
			p.NodeSelector = &nodeSelector{map[string]string{configLabel: c.name}}
		}
		hasDefault = hasDefault || c.name == config.DefaultProfile
		profiles = append(profiles, p)
	}
	if len(configs) > 1 {
		all.note("Each profile applies to the nodes with its label %s; --kubeconfig of accelmux run, or the chart, reads the labels. The config-manager is not needed.", configLabel)
	}
	if !hasDefault {
		all.note("No profile applies to nodes without the label: rename that of the config-manager's default to default, and take its nodeSelector out.")
	}
	text, notes, err := writeProfiles(all, profiles)
	if err != nil {
		return nil, nil, errors.Join(errors.New("the configurations do not go together"), err)
	}
	return text, notes, nil
}

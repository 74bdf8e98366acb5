// Package presets has the kinds of devices that come with the backend: one file each, whose
// first comment is its line of documentation.
package presets

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/sdk"
)

//go:embed *.yaml
var files embed.FS

// Names returns the names of all presets, sorted.
var Names = sync.OnceValue(func() []string {
	entries, _ := files.ReadDir(".") // it is part of the program
	var names []string
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), path.Ext(entry.Name())))
	}
	slices.Sort(names)
	return names
})

// JSON returns a preset as JSON. The error is for users.
func JSON(name string) ([]byte, error) {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("%q is no preset: there are %s", name, strings.Join(Names(), ", "))
	}
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("preset %s: %w", name, err)
	}
	return data, nil
}

// Get returns a preset. The error is for users.
func Get(name string) (k description.Kind, err error) {
	data, err := JSON(name)
	if err != nil {
		return k, err
	}
	if err := sdk.DecodeSettings(data, &k); err != nil {
		return k, fmt.Errorf("preset %s: %w", name, err)
	}
	return k, nil
}

// Doc returns a preset's line of documentation; "" if there is none.
func Doc(name string) string {
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimPrefix(line, "# ")
}

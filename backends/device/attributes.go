package device

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Attributes implements [sdk.Attributer].
func (b *Backend) Attributes() []*sdk.Declaration { return b.config().attributes() }

// Attributes returns the declarations for settings; the error is that of [Check].
func Attributes(data json.RawMessage) ([]*sdk.Declaration, error) {
	cfg, err := configure(data, sdk.HostPaths{})
	if err != nil {
		return nil, err
	}
	return cfg.attributes(), nil
}

// maxDeclarations is the contract's limit.
const maxDeclarations = 1024

var attributeKinds = map[string]backendv1.AttributeKind{
	"string": sdk.KindString, "int": sdk.KindInt, "bool": sdk.KindBool, "version": sdk.KindVersion,
	"list(string)": sdk.KindStrings, "list(int)": sdk.KindInts, "list(bool)": sdk.KindBools,
}

// attributes returns the declarations of what the kinds define.
func (c *config) attributes() []*sdk.Declaration {
	all := []*sdk.Declaration{
		sdk.Declare(sdk.KindString, description.KindAttribute, "the name of the kind"),
		sdk.Declare(sdk.KindBool, description.CountedAttribute, "true if the ID has a number that the kernel gives in the order in which it finds devices: another device may have the ID after a reboot"),
	}
	type identity struct {
		name     string
		capacity bool
	}
	known := map[identity]*sdk.Declaration{}
	add := func(name string, kind backendv1.AttributeKind, of string) {
		id := identity{name, kind == sdk.KindCapacity}
		if d := known[id]; d == nil {
			known[id] = sdk.Declare(kind, name, "of the kind "+of)
			all = append(all, known[id])
		} else {
			d.Description = "of several kinds"
			if d.GetKind() != kind {
				d.Kind = sdk.KindAny
			}
		}
	}
	for _, k := range c.kinds {
		for _, name := range slices.Sorted(maps.Keys(k.Attributes)) {
			add(name, attributeKinds[k.Attributes[name].Type], k.Name)
		}
		for _, name := range slices.Sorted(maps.Keys(k.Capacities)) {
			add(name, sdk.KindCapacity, k.Name)
		}
		if k.Count > 0 {
			add(description.SharesCapacity, sdk.KindCapacity, k.Name)
		}
	}
	if len(all) > maxDeclarations {
		all = append(all[:maxDeclarations-1], sdk.Declare(sdk.KindAny, "*", "of further kinds"))
	}
	return all
}

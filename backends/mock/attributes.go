package mock

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/accelmux/accelmux/backends/sdk"
)

// declarations are the attributes and capacities that devices may have without further ones in the settings.
var declarations = []*sdk.Declaration{
	sdk.Declare(sdk.KindString, "model", "the model of the settings"),
	sdk.Declare(sdk.KindString, "uuid", "made of the ID"),
	sdk.Declare(sdk.KindInt, "index", "counts the devices of the settings"),
	sdk.Declare(sdk.KindString, "profile", "that of a partition made for claims"),
	sdk.Declare(sdk.KindCapacity, memoryCapacity, "bytes"),
	sdk.Declare(sdk.KindCapacity, computeCapacity, "100 percent, of a device with shares"),
}

// further stands for the attributes that settings and scenarios add.
var further = sdk.Declare(sdk.KindAny, "*", "what the settings or the scenario add")

// declare returns the declarations for kinds of devices; a scenario may add attributes at any time.
func declare(groups []group, scenario bool) []*sdk.Declaration {
	var all []*sdk.Declaration
	places := map[string]int{} // of attributes, by name
	for _, d := range declarations {
		if d.GetKind() != sdk.KindCapacity {
			places[d.GetName()] = len(all)
		}
		all = append(all, d)
	}
	for _, g := range groups {
		for _, name := range slices.Sorted(maps.Keys(g.Attributes)) {
			kind := g.Attributes[name].kind()
			i, known := places[name]
			switch {
			case !known:
				places[name] = len(all)
				all = append(all, sdk.Declare(kind, name, "of the settings"))
			case all[i].GetKind() != kind: // other devices have the other one
				all[i] = sdk.Declare(sdk.KindAny, name, all[i].GetDescription())
			}
		}
		for _, name := range slices.Sorted(maps.Keys(g.Capacities)) {
			if !slices.ContainsFunc(all, func(d *sdk.Declaration) bool { return d.GetKind() == sdk.KindCapacity && d.GetName() == name }) {
				all = append(all, sdk.Declare(sdk.KindCapacity, name, "of the settings"))
			}
		}
	}
	if scenario {
		all = append(all, further)
	}
	return all
}

// Attributes implements [sdk.Attributer].
func (b *Backend) Attributes() []*sdk.Declaration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.declarations
}

// Attributes returns the declarations for settings.
func Attributes(settings json.RawMessage) ([]*sdk.Declaration, error) {
	cfg, err := parseSettings(settings)
	if err != nil {
		return nil, err
	}
	return cfg.declarations, nil
}

package inventory

import (
	"slices"
	"testing"
)

// Verifies which nodes of devices are their own: not those that another device has, too, unless it is what they are parts of.
func TestOwnNodes(t *testing.T) {
	device := func(id, parent string, nodes ...string) *Device {
		d := &Device{Key: Key{ID: id}, Parent: parent}
		for _, node := range nodes {
			d.Edits.DeviceNodes = append(d.Edits.DeviceNodes, DeviceNode{HostPath: node})
		}
		return d
	}
	b := &Backend{Devices: []*Device{
		device("card", "", "all", "a", "b", "manage"), device("a", "card", "all", "a", "manage"), device("b", "card", "all", "b", "b", "manage"),
		device("other", "", "all", "other"), device("kernel", "", "all"), device("none", ""),
		{Key: Key{ID: "later"}, Potential: true},
	}}
	for name, c := range map[string]struct{ ids, nodes, without []string }{
		"a part":         {[]string{"a"}, []string{"a"}, nil},
		"a whole":        {[]string{"card", "a", "b"}, []string{"a", "b", "manage"}, nil},
		"without others": {[]string{"a", "b"}, []string{"a", "manage", "b"}, nil},
		"shared only":    {[]string{"other", "kernel"}, []string{"other"}, []string{"kernel"}},
		"potential":      {[]string{"later", "other"}, []string{"other"}, nil},
		"none":           {[]string{"none", "unknown"}, nil, []string{"none", "unknown"}},
	} {
		nodes, without := b.OwnNodes(c.ids...)
		var paths []string
		for _, n := range nodes {
			paths = append(paths, n.HostPath)
		}
		if !slices.Equal(paths, c.nodes) || !slices.Equal(without, c.without) {
			t.Errorf("%s: %v, without %v; want %v, %v", name, paths, without, c.nodes, c.without)
		}
	}
}

package cdi_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// machine drives a store at random, and records what each holder got.
type machine struct {
	t       *testing.T
	dir     string
	store   *cdi.Store
	names   *cdi.Names
	values  map[string]int            // device -> its edits; absent: gone
	held    map[string]map[string]int // device -> name -> the edits when taken
	holders map[string]string         // device -> the name of its holder's definition
	broken  checkpoint.Op
	file    string
}

var ids = []string{"a", "a-", "b", "0000:65:00.0"}

func (m *machine) open(t *rapid.T) {
	killed(t, m.dir)
	s, err := cdi.Open(cdi.Options{Dir: m.dir, Disk: checkpoint.Writer{Before: func(op checkpoint.Op, path string) error {
		if op == m.broken && strings.HasSuffix(path, m.file) {
			return errDisk
		}
		return nil
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Own([]string{backend}); err != nil {
		t.Fatal(err)
	}
	m.store = s
}

// ofValue returns a device with edits of its own, edits that all have, and edits that all of
// the same value have.
func ofValue(id string, value int) *inventory.Device {
	d := hooked(id, "all", fmt.Sprint(value))
	d.Edits.Env = inventory.Named(map[string]string{"VALUE": fmt.Sprint(value), "ALL": "1"})
	d.Edits.DeviceNodes = []inventory.DeviceNode{{Path: "/dev/null", HostPath: "/dev/null", Permissions: "rw"}}
	for _, name := range []string{"all", fmt.Sprint(value)} {
		d.Edits.Mounts = append(d.Edits.Mounts, inventory.Mount{HostPath: "/lib/" + name, ContainerPath: "/lib/" + name})
	}
	return d
}

func (m *machine) publish() {
	var devices []*inventory.Device
	for _, id := range slices.Sorted(maps.Keys(m.values)) {
		devices = append(devices, ofValue(id, m.values[id]))
	}
	m.names = m.store.Publish(devices, func(k inventory.Key) bool { return len(m.held[k.ID]) > 0 })
}

// mend repairs the disk and publishes.
func (m *machine) mend() { m.broken = ""; m.publish() }

func (m *machine) actions() map[string]func(*rapid.T) {
	id := rapid.SampledFrom(ids)
	return map[string]func(*rapid.T){
		"publish": func(*rapid.T) { m.publish() },
		"change": func(t *rapid.T) {
			m.values[id.Draw(t, "id")] = rapid.IntRange(1, 4).Draw(t, "value")
		},
		"vanish": func(t *rapid.T) { delete(m.values, id.Draw(t, "id")) },
		"take": func(t *rapid.T) {
			id := id.Draw(t, "id")
			name, err := m.names.Qualified(key(id))
			if err != nil {
				t.Skip("not given out")
			}
			value, ok := meaning(m.runtime(t), name)
			if !ok {
				t.Fatalf("%s was given out, but is not on disk", name)
			}
			if m.held[id] == nil {
				m.held[id] = map[string]int{}
			}
			if _, twice := m.held[id][name]; !twice {
				m.held[id][name] = value
			}
		},
		"release": func(t *rapid.T) {
			id := id.Draw(t, "id")
			delete(m.held, id)
			delete(m.holders, id)
			if err := m.store.Undefine([]inventory.Key{key(id)}, alive()); err != nil && m.broken == "" {
				t.Fatal(err)
			}
		},
		"prepare": func(t *rapid.T) {
			id := id.Draw(t, "id")
			if len(m.held[id]) == 0 {
				t.Skip("not held")
			}
			d := cdi.HolderDefinition{Name: cdi.HolderName(key(id), "r", []string{id}), Device: key(id), Edits: []inventory.Edits{more("1")}}
			if err := m.store.Define([]cdi.HolderDefinition{d}, alive()); err == nil {
				m.holders[id] = d.Name
			} else if m.broken == "" {
				t.Fatal(err)
			}
		},
		"reopen": func(t *rapid.T) { m.open(t); m.publish() },
		"wipe": func(t *rapid.T) {
			if err := os.RemoveAll(m.dir); err != nil {
				t.Fatal(err)
			}
			m.mend()
		},
		"break": func(t *rapid.T) {
			m.broken = rapid.SampledFrom([]checkpoint.Op{checkpoint.OpCreate, checkpoint.OpRename}).Draw(t, "op")
			m.file = rapid.SampledFrom([]string{gpuFile, holderFile, ""}).Draw(t, "file")
		},
		"mend": func(*rapid.T) { m.mend() },
		"":     m.check,
	}
}

// runtime returns what a container runtime finds in the directory.
func (m *machine) runtime(t *rapid.T) *cdilib.Cache {
	cache, err := cdilib.NewCache(cdilib.WithSpecDirs(m.dir), cdilib.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if errs := cache.GetErrors(); len(errs) > 0 {
		t.Fatalf("the CDI library complains: %v", errs)
	}
	return cache
}

// meaning returns the value of the device that a container gets by a name. It is not ok unless
// the container gets all edits of that device, each once.
func meaning(runtime *cdilib.Cache, name string) (value int, ok bool) {
	spec := &oci.Spec{Process: &oci.Process{}, Linux: &oci.Linux{}}
	if _, err := runtime.InjectDevices(spec, name); err != nil {
		return 0, false
	}
	for _, e := range spec.Process.Env {
		_, _ = fmt.Sscanf(e, "VALUE=%d", &value)
	}
	var got []string
	for _, m := range spec.Mounts {
		got = append(got, m.Source)
	}
	if spec.Hooks != nil {
		for _, h := range spec.Hooks.CreateContainer {
			got = append(got, h.Path)
		}
	}
	slices.Sort(got)
	of := fmt.Sprint(value)
	return value, slices.Contains(spec.Process.Env, "ALL=1") && len(spec.Linux.Devices) == 1 &&
		slices.Equal(got, []string{"/bin/" + of, "/bin/all", "/lib/" + of, "/lib/all"})
}

// check verifies that a held name means what it meant when it was allocated, and that a
// holder's own definition exists until its end.
func (m *machine) check(t *rapid.T) {
	runtime := m.runtime(t)
	for id, names := range m.held {
		for name, want := range names {
			got, ok := meaning(runtime, name)
			if !ok || got != want {
				t.Fatalf("held %s of %s means %d (there: %v), meant %d when it was taken", name, id, got, ok, want)
			}
		}
	}
	for _, d := range m.store.Definitions() {
		if d.Device.Backend != backend || !slices.Contains(ids, d.Device.ID) {
			t.Fatalf("%s belongs to the unknown device %s", d.Name, d.Device)
		}
	}
	for id, name := range m.holders {
		if runtime.GetDevice(name) == nil {
			t.Fatalf("%s, of the holder of %s, is gone", name, id)
		}
	}
}

// Verifies over random histories that a held name resolves to the edits that it had when it
// was allocated.
func TestHeldNamesKeepTheirMeaningWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "cdi")
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		m := &machine{t: t, dir: dir, values: map[string]int{}, held: map[string]map[string]int{}, holders: map[string]string{}}
		m.open(rt)
		m.publish()
		rt.Repeat(m.actions())
	})
}

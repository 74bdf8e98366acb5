package features_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/features"
	"github.com/accelmux/accelmux/core/inventory"
)

func profile(backends ...config.Backend) *config.Profile {
	for i := range backends {
		if backends[i].Features == nil {
			backends[i].Features = config.DefaultFeatures()
		}
		if backends[i].FeaturePrefix == "" {
			backends[i].FeaturePrefix = backends[i].Name + config.FeatureDomainSuffix
		}
		if backends[i].Holdover == 0 {
			backends[i].Holdover = config.Duration(config.DefaultHoldover)
		}
	}
	return &config.Profile{Name: "default", Backends: backends}
}

func snapshot(backends ...*inventory.Backend) *inventory.Snapshot {
	return &inventory.Snapshot{Generation: 1, Backends: backends}
}

func backend(name string, devices ...*inventory.Device) *inventory.Backend {
	for i, d := range devices {
		d.Backend = name
		if d.ID == "" {
			d.ID = fmt.Sprintf("d-%d", i)
		}
	}
	return &inventory.Backend{Name: name, Devices: devices}
}

// device is one with string attributes, by pairs.
func device(class string, pairs ...string) *inventory.Device {
	attributes := map[string]inventory.Attribute{}
	for i := 0; i < len(pairs); i += 2 {
		attributes[pairs[i]] = inventory.Attribute{Value: pairs[i+1]}
	}
	return &inventory.Device{Class: class, Attributes: inventory.Named(attributes)}
}

func sized(memory int64) *inventory.Device {
	d := device("gpu")
	d.Capacities = inventory.Named(map[string]int64{"memory": memory})
	return d
}

func part(parent string, d *inventory.Device) *inventory.Device {
	d.Parent = parent
	return d
}

func named(id string, d *inventory.Device) *inventory.Device {
	d.ID = id
	return d
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func find(t *testing.T, p *config.Profile, s *inventory.Snapshot) *features.Set {
	t.Helper()
	set, _ := new(features.Finder).Find(p, s, nil, start)
	return set
}

// Verifies the features of devices, and the problems of features that do not fit.
func TestFind(t *testing.T) {
	number, flag, version, negative := int64(3), true, inventory.Version("535.104.5+build"), int64(-1)
	typed := device("gpu")
	typed.Attributes = inventory.Named(map[string]inventory.Attribute{"level": {Value: number}, "fast": {Value: flag}, "driverVersion": {Value: version}, "low": {Value: negative}})
	typed.Capacities = inventory.Named(map[string]int64{"memory": 16 << 30})
	long := strings.Repeat("x", 64)
	unhealthy := device("gpu", "model", "M1")
	unhealthy.Health = inventory.Health{State: inventory.StateUnhealthy}
	for name, tc := range map[string]struct {
		devices  []*inventory.Device
		features []string
		want     map[string]string
		problems []string
	}{
		"nothing": {want: map[string]string{}},
		"all the same, one of them unhealthy": {
			devices: []*inventory.Device{device("gpu", "model", "M1"), unhealthy},
			want:    map[string]string{"gpu.count": "2", "gpu.model": "M1"},
		},
		"different models": {
			devices: []*inventory.Device{device("gpu", "model", "M1"), device("gpu", "model", "M2"), device("gpu", "model", "M2")},
			want:    map[string]string{"gpu.count": "3", "gpu.model.M1": "1", "gpu.model.M2": "2"},
		},
		"one without the attribute": {
			devices: []*inventory.Device{device("gpu", "model", "M1"), device("gpu")},
			want:    map[string]string{"gpu.count": "2", "gpu.model.M1": "1"},
		},
		"types": {
			devices:  []*inventory.Device{typed},
			features: []string{"level", "fast", "driverVersion", "memory", "low", "missing"},
			want:     map[string]string{"gpu.count": "1", "gpu.level": "3", "gpu.fast": "true", "gpu.driverVersion": "535.104.5.build", "gpu.memory": "16G"},
			problems: []string{`low "-1" of class gpu is left out: a label cannot be negative`},
		},
		"a version as its vendor writes it": {
			devices:  []*inventory.Device{device("gpu", "driverVersion", "550.163.1", "driverVersionFull", "550.163.01")},
			features: []string{"driverVersion"},
			want:     map[string]string{"gpu.count": "1", "gpu.driverVersion": "550.163.01"},
		},
		"partitions whose device is not listed, in two modes": {
			devices: []*inventory.Device{
				part("g-0", device("gpu", "profile", "1g.10gb")), part("g-0", device("gpu", "profile", "1g.10gb+me")), part("g-1", device("gpu", "profile", "1g.10gb")),
			},
			want: map[string]string{"gpu.count": "2", "gpu.partitions": "3", "gpu.profile.1g.10gb": "2", "gpu.profile.1g.10gb.me": "1"},
		},
		"partitions of another class than their listed device": {
			devices: []*inventory.Device{named("g-0", device("gpu")), part("g-0", device("slice")), part("g-0", device("slice"))},
			want:    map[string]string{"gpu.count": "1", "slice.partitions": "2"},
		},
		"equal partitions whose memory differs by some MB": {
			devices: []*inventory.Device{sized(51522830336), sized(51539607552), sized(51539607552)}, features: []string{"memory"},
			want: map[string]string{"gpu.count": "3", "gpu.memory": "48G"},
		},
		"memory of several sizes": {
			devices: []*inventory.Device{sized(10468982784), sized(512 << 20), sized(1000)}, features: []string{"memory"},
			want: map[string]string{"gpu.count": "3", "gpu.memory.10G": "1", "gpu.memory.512M": "1", "gpu.memory.1000": "1"},
		},
		"characters that a label may not have": {
			devices: []*inventory.Device{device("gpu", "model", " Mock (40 GB)™ ")},
			want:    map[string]string{"gpu.count": "1", "gpu.model": "Mock-40-GB"},
		},
		"nothing that a label may have": {
			devices:  []*inventory.Device{device("gpu", "model", "™")},
			want:     map[string]string{"gpu.count": "1"},
			problems: []string{`model "™" of class gpu is left out: it has no character that a label can have`},
		},
		"too long": {
			devices:  []*inventory.Device{device("gpu", "model", long), device("gpu", "model", long)},
			want:     map[string]string{"gpu.count": "2", "gpu.model": long[:63]},
			problems: []string{`model "` + long + `" of class gpu was cut: a label has at most 63 characters`},
		},
		"two values that become one": {
			devices:  []*inventory.Device{device("gpu", "model", "A 1"), device("gpu", "model", "A-1"), device("gpu", "model", "A-1")},
			want:     map[string]string{"gpu.count": "3", "gpu.model": "A-1"},
			problems: []string{`model "A-1" of class gpu is the same label as "A 1"`},
		},
		"a name that is taken": {
			devices: []*inventory.Device{device("gpu", "count", "many")}, features: []string{"count"},
			want:     map[string]string{"gpu.count": "1"},
			problems: []string{"mock.accelmux.io/gpu.count = many is left out: there is a feature of that name, 1"},
		},
		"a name that is too long": {
			devices: []*inventory.Device{device(strings.Repeat("c", 60), "model", "M1")},
			want: map[string]string{
				strings.Repeat("c", 54) + "-5aa7d411": "1", strings.Repeat("c", 54) + "-f6e5180c": "M1",
			},
			problems: []string{"a feature's name is too long and was cut: mock.accelmux.io/" + strings.Repeat("c", 54)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			set := find(t, profile(config.Backend{Name: "mock", Features: tc.features}), snapshot(backend("mock", tc.devices...)))
			got := map[string]string{}
			for name, value := range set.Values {
				got[strings.TrimPrefix(name, "mock.accelmux.io/")] = value
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("features (-want +got):\n%s", diff)
			}
			for _, want := range tc.problems {
				if !slices.ContainsFunc(set.Problems, func(p features.Problem) bool { return p.Backend == "mock" && strings.HasPrefix(p.Message, want) }) {
					t.Errorf("no problem %q among %q", want, set.Problems)
				}
			}
			if len(tc.problems) == 0 && len(set.Problems) > 0 {
				t.Errorf("problems %q", set.Problems)
			}
		})
	}
}

// Verifies that an attribute with a value of its own for each device does not make
// a feature of each, and that counts stay when attributes have no room.
func TestBounds(t *testing.T) {
	var devices []*inventory.Device
	for i := range 100 {
		devices = append(devices, device("gpu", "uuid", fmt.Sprint(i), "model", fmt.Sprint(i%16)))
	}
	for i := range 60 {
		devices = append(devices, device(fmt.Sprintf("z%d", i)))
	}
	set := find(t, profile(config.Backend{Name: "mock", Features: []string{"uuid", "model"}}), snapshot(backend("mock", devices...)))
	if len(set.Values) != 64 || set.Values["mock.accelmux.io/z59.count"] != "1" {
		t.Errorf("%d features: %v", len(set.Values), set.Values)
	}
	text := fmt.Sprint(set.Problems)
	for _, want := range []string{"uuid is left out: the devices of class gpu have 100 different values, and at most 16 are counted", "more than 64 features"} {
		if !strings.Contains(text, want) {
			t.Errorf("no problem %q in %s", want, text)
		}
	}
}

// Verifies for any devices that names and values are labels, that there are not too
// many, that the same devices give the same features in any order, and that the domain
// says whose they are.
func TestAlwaysLabels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"model", "memory", "_x_", "count"}
		count := rapid.IntRange(0, 80).Draw(t, "devices")
		var devices []*inventory.Device
		for i := range count {
			d := device(rapid.StringMatching(`[a-z][a-z0-9-]{0,62}`).Draw(t, "class"))
			if i%2 == 0 {
				d.Class = "gpu"
			}
			d.Parent = rapid.SampledFrom([]string{"", "", "p-1", "d-1"}).Draw(t, "parent")
			attributes := map[string]inventory.Attribute{}
			for _, name := range names {
				text := rapid.OneOf(rapid.StringN(0, 64, 64), rapid.SampledFrom([]string{"M1", "M 1", "M-1", "-"})).Draw(t, name)
				number := rapid.Int64().Draw(t, "number")
				attributes[name] = rapid.SampledFrom([]inventory.Attribute{{Value: text}, {Value: number}}).Draw(t, "attribute")
			}
			d.Attributes = inventory.Named(attributes)
			devices = append(devices, d)
		}
		p := profile()
		for _, name := range []string{"a", "b", "c", "d", strings.Repeat("e", 63)} {
			p.Backends = append(p.Backends, config.Backend{Name: name, FeaturePrefix: name + ".example.com", Features: names})
		}
		var s, reversed inventory.Snapshot
		for _, b := range p.Backends {
			s.Backends = append(s.Backends, backend(b.Name, clone(devices)...))
			other := backend(b.Name, clone(devices)...)
			slices.Reverse(other.Devices)
			reversed.Backends = append(reversed.Backends, other)
		}
		var f features.Finder
		set, _ := f.Find(p, &s, nil, start)
		if len(set.Values) > features.MaxFeatures {
			t.Fatalf("%d features", len(set.Values))
		}
		for name, value := range set.Values {
			if problems := append(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)...); len(problems) > 0 || value == "" {
				t.Fatalf("%s=%s: %v", name, value, problems)
			}
			if !slices.ContainsFunc(p.Backends, func(b config.Backend) bool { return strings.HasPrefix(name, b.FeaturePrefix+"/") }) {
				t.Fatalf("%s has the prefix of no backend", name)
			}
		}
		slices.Reverse(p.Backends)
		again, _ := new(features.Finder).Find(p, &reversed, nil, start)
		cached, _ := f.Find(p, &s, nil, start)
		if !maps.Equal(set.Values, again.Values) || !maps.Equal(set.Values, cached.Values) {
			t.Fatalf("not the same again:\n%v\n%v", set.Values, again.Values)
		}
	})
}

// Verifies that shared devices have the feature replicas, also when it changes though
// the devices did not, and each class a count, also if no attribute is a feature.
func TestReplicas(t *testing.T) {
	var f features.Finder
	p := profile(config.Backend{Name: "b", Features: []string{}})
	s := snapshot(backend("b", device("gpu", "model", "M1"), device("gpu"), device("fpga")))
	check := func(replicas map[inventory.Key]int, want map[string]string) {
		t.Helper()
		got, _ := f.Find(p, s, replicas, start)
		all := map[string]string{"b.accelmux.io/gpu.count": "2", "b.accelmux.io/fpga.count": "1"}
		for name, value := range want {
			all["b.accelmux.io/"+name] = value
		}
		if !maps.Equal(got.Values, all) {
			t.Errorf("features %v, want %v", got.Values, all)
		}
	}
	check(nil, nil)
	check(map[inventory.Key]int{{Backend: "b", ID: "d-0"}: 4, {Backend: "b", ID: "d-1"}: 4}, map[string]string{"gpu.replicas": "4"})
	check(map[inventory.Key]int{{Backend: "b", ID: "d-0"}: 4, {Backend: "c", ID: "d-2"}: 4}, map[string]string{"gpu.replicas.4": "1", "gpu.replicas.1": "1"})
	check(nil, nil)
}

// Verifies that labels of a vendor are published if the configuration has their prefix, with
// the value that holds for a shared device if theirs is shared.
func TestVendorLabels(t *testing.T) {
	b := backend("b", named("GPU-1", device("gpu")))
	b.NodeLabels = []inventory.NodeLabel{
		{Name: "example.org/other", Value: "1"},
		{Name: "nvidia.com/gpu.product", Value: "H100", Device: "GPU-1", SharedValue: "H100-SHARED"},
		{Name: "nvidia.com/gpu.replicas", Value: "1", Device: "GPU-1", SharedValue: "{replicas}"},
		{Name: "nvidia.com/mig.capable", Value: "true"},
	}
	shared := map[inventory.Key]int{{Backend: "b", ID: "GPU-1"}: 4}
	for name, tc := range map[string]struct {
		prefixes []string
		replicas map[inventory.Key]int
		want     map[string]string
		problems []features.Problem
	}{
		"no prefix": {},
		"others": {prefixes: []string{"com", "amd.com"}, problems: []features.Problem{
			{Backend: "b", Message: `vendorLabels: the backend has no label with the prefix "com"`},
			{Backend: "b", Message: `vendorLabels: the backend has no label with the prefix "amd.com"`},
		}},
		"not shared":     {prefixes: []string{"nvidia.com"}, want: map[string]string{"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.replicas": "1", "nvidia.com/mig.capable": "true"}},
		"shared by four": {prefixes: []string{"nvidia.com"}, replicas: shared, want: map[string]string{"nvidia.com/gpu.product": "H100-SHARED", "nvidia.com/gpu.replicas": "4", "nvidia.com/mig.capable": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := profile(config.Backend{Name: "b", Features: []string{}, VendorLabels: tc.prefixes})
			got, _ := new(features.Finder).Find(p, snapshot(b), tc.replicas, start)
			vendors := maps.Clone(got.Values)
			maps.DeleteFunc(vendors, func(label, _ string) bool { return strings.HasPrefix(label, "b.accelmux.io/") })
			if !maps.Equal(vendors, tc.want) || !slices.Equal(got.Problems, tc.problems) {
				t.Errorf("labels %v, problems %v; want %v, %v", vendors, got.Problems, tc.want, tc.problems)
			}
			pending, _ := new(features.Finder).Find(p, snapshot(), nil, start)
			if want := append([]string{"b.accelmux.io"}, tc.prefixes...); !slices.Equal(pending.Pending, want) {
				t.Errorf("pending %q, want %q", pending.Pending, want)
			}
		})
	}
}

func clone(devices []*inventory.Device) []*inventory.Device {
	var out []*inventory.Device
	for _, d := range devices {
		c := *d
		out = append(out, &c)
	}
	return out
}

// Verifies over a backend's life when its features count: not yet while it starts,
// through its holdover when it is lost, no longer after that or once the profile
// has it no more.
func TestLife(t *testing.T) {
	var f features.Finder
	p := profile(config.Backend{Name: "b"}, config.Backend{Name: "a"})
	a := backend("a", device("gpu"))
	check := func(at time.Duration, s *inventory.Snapshot, values, pending string, next time.Duration) {
		t.Helper()
		set, due := f.Find(p, s, nil, start.Add(at))
		var names []string
		for name := range set.Values {
			domain, _, _ := strings.Cut(name, ".")
			names = append(names, domain)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != values {
			t.Errorf("after %v: features of %q, want %q", at, got, values)
		}
		if got := strings.Join(set.Pending, " "); got != pending {
			t.Errorf("after %v: pending %q, want %q", at, got, pending)
		}
		if want := start.Add(next); next == 0 && !due.IsZero() || next > 0 && !due.Equal(want) {
			t.Errorf("after %v: next at %v, want %v", at, due, want)
		}
	}
	check(0, snapshot(), "", "a.accelmux.io b.accelmux.io", 5*time.Minute)
	check(time.Minute, snapshot(a), "a", "b.accelmux.io", 5*time.Minute)
	check(5*time.Minute, snapshot(a), "a", "", 0)
	check(6*time.Minute, snapshot(a, backend("b", device("gpu"))), "a b", "", 0)
	lost := *a
	lost.LostAt = start.Add(7 * time.Minute)
	check(8*time.Minute, snapshot(&lost), "a", "b.accelmux.io", 12*time.Minute)
	check(12*time.Minute, snapshot(&lost), "", "b.accelmux.io", 13*time.Minute)
	check(12*time.Minute, snapshot(a), "a", "b.accelmux.io", 13*time.Minute)
	p = profile(config.Backend{Name: "b"})
	check(12*time.Minute, snapshot(a), "", "b.accelmux.io", 13*time.Minute)
}

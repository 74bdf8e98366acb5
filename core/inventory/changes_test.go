package inventory

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/proto/backendplugin"
)

func encodeChanges(t testing.TB, c *backendv1.Changes) *Changes {
	t.Helper()
	return parsed(t, c, ParseChanges)
}

// difference are the changes from one list of devices to another with the same IDs; ok
// is false if that is not so, or an ID is there twice.
func difference(before, after []*backendv1.Device) (changed []*backendv1.Device, ok bool) {
	seen := map[string]bool{}
	if len(before) != len(after) {
		return nil, false
	}
	for i, d := range after {
		if d.GetId() != before[i].GetId() || seen[d.GetId()] {
			return nil, false
		}
		seen[d.GetId()] = true
		if !proto.Equal(d, before[i]) {
			changed = append(changed, d)
		}
	}
	return changed, true
}

// Verifies that changes leave what the whole inventory in their place leaves, whatever
// becomes of the devices, defects and all: devices, problems, what was said before, and
// whether anything is new.
func TestChangesAreTheWhole(t *testing.T) {
	taken, beside := 0, 0 // how often there were changes, and how often beside defects of others
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		devices := wireDevices(12)
		whole, _ := newTestStore(t)
		parts, _ := newTestStore(t)
		var last *Wire
		for g := uint64(1); g < 40; g++ {
			before := devices
			for n := random.IntN(3); g > 1 && n >= 0; n-- {
				devices = change(random, devices)
			}
			i := inv(g, devices...)
			if i.SettingsRevision = g / 9; random.IntN(5) == 0 {
				i.Problems = []string{fmt.Sprint("a problem ", g)}
			}
			wire := encode(t, i)
			if changed, ok := difference(before, devices); ok && last != nil {
				taken++
				random.Shuffle(len(changed), func(a, b int) { changed[a], changed[b] = changed[b], changed[a] })
				made, err := last.Change(encodeChanges(t, &backendv1.Changes{
					Generation: g, Base: last.Generation(), Devices: changed, Problems: i.Problems, SettingsRevision: i.SettingsRevision,
				}))
				if err != nil {
					t.Fatalf("seed %d, report %d: %v", seed, g, err)
				}
				sameWire(t, made, wire)
				wire = made
				if src := parts.source("mock", false); src.defects != nil {
					if r, ok := src.amended("mock", made); ok && len(r.changed) > 0 {
						beside++
					}
				}
			}
			if !sameReport(t, whole, parts, encode(t, i), wire) {
				devices, last = wireDevices(12), nil // as another process would
				whole.Restarted("mock")
				parts.Restarted("mock")
				continue
			}
			last = wire
		}
	}
	if taken < 100 || beside < 50 {
		t.Errorf("only %d times there were changes, %d times beside defects", taken, beside)
	}
}

// sameReport gives one store a whole inventory and another one what was made of changes;
// false if it is refused.
func sameReport(t *testing.T, whole, parts *Store, all, made *Wire) bool {
	t.Helper()
	whole.source("mock", false).wire = nil // so that it looks at all devices
	was := parts.Snapshot()
	want, got := whole.Report("mock", all), parts.Report("mock", made)
	if fmt.Sprint(want) != fmt.Sprint(got) {
		t.Fatalf("report %d: %v, want %v", all.Generation(), got, want)
	}
	if want != nil {
		return false
	}
	a, b := parts.Snapshot(), whole.Snapshot()
	if a.Generation != b.Generation {
		t.Fatalf("report %d: snapshot %d after %d, want %d", all.Generation(), a.Generation, was.Generation, b.Generation)
	}
	x, y := a.Backends[0], b.Backends[0]
	if !reflect.DeepEqual(x.Devices, y.Devices) || !slices.Equal(x.Problems, y.Problems) || !slices.Equal(x.Superseded, y.Superseded) {
		t.Fatalf("report %d: %v %+v %+v\nwant %v %+v %+v", all.Generation(),
			ids(x.Devices), x.Problems, x.Superseded, ids(y.Devices), y.Problems, y.Superseded)
	}
	if len(was.Backends) == 0 {
		return true
	}
	before := byID(was.Backends[0].Devices)
	for _, d := range x.Devices {
		if old := before[d.ID]; old != nil && old != d && equalDevice(old, d) {
			t.Fatalf("report %d: device %s is another one, and the same", all.Generation(), d.ID)
		}
	}
	return true
}

func sameWire(t *testing.T, got, want *Wire) {
	t.Helper()
	if got.Generation() != want.Generation() || got.SettingsRevision() != want.SettingsRevision() || got.Len() != want.Len() ||
		got.size != want.size || !slices.Equal(got.Problems(), want.Problems()) {
		t.Fatalf("%+v, want %+v", got, want)
	}
	for i := range got.Len() {
		if string(got.at(i).raw) != string(want.at(i).raw) {
			t.Fatalf("device %d is %q, want %q", i, got.at(i).raw, want.at(i).raw)
		}
	}
}

// Verifies which changes are refused, in which words, and that the inventory that they
// were to change stays as it is.
func TestChangesRefused(t *testing.T) {
	big := wireDevice("b")
	big.Health.Message = strings.Repeat("x", backendplugin.MaxMessageSize)
	for name, tc := range map[string]struct {
		changes *backendv1.Changes
		want    string
	}{
		"another base":   {&backendv1.Changes{Base: 6}, "they change generation 6, but the one before them on the stream is 7"},
		"no base":        {&backendv1.Changes{}, "they change generation 0"},
		"a later base":   {&backendv1.Changes{Base: 8}, "they change generation 8"},
		"unknown":        {&backendv1.Changes{Base: 7, Devices: []*backendv1.Device{wireDevice("a"), wireDevice("z\x00")}}, `the device "z\x00" is not in the inventory`},
		"nameless":       {&backendv1.Changes{Base: 7, Devices: []*backendv1.Device{{}}}, `the device "" is not in the inventory`},
		"twice":          {&backendv1.Changes{Base: 7, Devices: []*backendv1.Device{wireDevice("a"), wireDevice("b"), wireDevice("a")}}, `the device "a" comes twice`},
		"too large":      {&backendv1.Changes{Base: 7, Devices: []*backendv1.Device{big}}, "at most 8388608 are allowed"},
		"large problems": {&backendv1.Changes{Base: 7, Problems: slices.Repeat([]string{strings.Repeat("x", maxSentence)}, 513)}, "at most 8388608 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			i := inv(7, wireDevice("a"), wireDevice("b"), wireDevice("b"))
			w := encode(t, i)
			tc.changes.Generation = 8
			if _, err := w.Change(encodeChanges(t, tc.changes)); err == nil || !strings.Contains(err.Error(), tc.want) || hasControl(err.Error()) {
				t.Errorf("%v, want %q", err, tc.want)
			}
			sameWire(t, w, encode(t, i))
		})
	}
	s, _ := newTestStore(t)
	w := encode(t, inv(7, wireDevice("a")))
	if err := s.Report("mock", w); err != nil {
		t.Fatal(err)
	}
	same, err := w.Change(encodeChanges(t, &backendv1.Changes{Base: 7, Generation: 7}))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Report("mock", same); err == nil || !strings.Contains(err.Error(), "its generation 7 does not follow 7") {
		t.Errorf("changes without a new generation: %v", err)
	}
}

// Verifies that malformed bytes are told as what they came as: the inventory or changes.
func TestMalformed(t *testing.T) {
	for name, data := range map[string][]byte{
		"no tag":      {0xff},
		"no value":    {fieldBase << 3},
		"cut short":   {fieldDevices<<3 | 2, 5, 'a'},
		"later field": {fieldGeneration << 3, 1, fieldProblems<<3 | 2, 1},
	} {
		if w, err := ParseWire(data); w != nil || err == nil || err.Error() != "the inventory is no valid protobuf" {
			t.Errorf("%s: an inventory: %v", name, err)
		}
		if c, err := ParseChanges(data); c != nil || err == nil || err.Error() != "the changes are no valid protobuf" {
			t.Errorf("%s: changes: %v", name, err)
		}
	}
}

// Verifies that a device of changes does not hold on to the message that it came in.
func TestChangesKeepNoMessage(t *testing.T) {
	w := encode(t, inv(1, wireDevice("a"), wireDevice("b")))
	c := encodeChanges(t, &backendv1.Changes{Base: 1, Generation: 2, Devices: []*backendv1.Device{wireDevice("b")}})
	next, err := w.Change(c)
	if err != nil {
		t.Fatal(err)
	}
	if &next.at(1).raw[0] == &c.devices[0][0] || &next.at(0).raw[0] != &w.at(0).raw[0] {
		t.Error("the device that changed is not a copy, or the other one is")
	}
}

// FuzzChanges takes any bytes for an inventory and for changes of it. Whatever they
// say, what becomes of it is what the whole inventory leads to.
func FuzzChanges(f *testing.F) {
	encoded := func(m proto.Message) []byte {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	some := inv(1, wireDevice("a"), wireDevice("b"), wireDevice("c"), wireDevice("b"))
	some.Devices[0].Links = []*backendv1.Link{{PeerId: "b", Kind: 1}}
	sick := wireDevice("b")
	sick.Health = &backendv1.Health{State: 2, Code: "c", Recovery: 3, Message: "m"}
	f.Add(encoded(some), encoded(&backendv1.Changes{Base: 1, Generation: 2, Devices: []*backendv1.Device{sick}}))
	f.Add(encoded(inv(1, wireDevice("a"))), encoded(&backendv1.Changes{Base: 1, Generation: 2, Devices: []*backendv1.Device{{Id: "a"}}}))
	f.Add(encoded(inv(1)), encoded(&backendv1.Changes{Base: 1, Generation: 2, Devices: []*backendv1.Device{sick}, Problems: []string{"p"}}))
	f.Fuzz(func(t *testing.T, data, more []byte) {
		w, err := ParseWire(data)
		c, bad := ParseChanges(more)
		if err != nil || bad != nil {
			return
		}
		made, refused := w.Change(c)
		var all backendv1.Inventory
		var changes backendv1.Changes
		if proto.Unmarshal(data, &all) != nil || proto.Unmarshal(more, &changes) != nil || len(all.Devices) > MaxDevices {
			return
		}
		valid := changes.Base == all.Generation
		seen := map[string]bool{}
		for _, d := range changes.Devices {
			i := slices.IndexFunc(all.Devices, func(o *backendv1.Device) bool { return o.GetId() == d.GetId() })
			if valid = valid && i >= 0 && !seen[d.GetId()]; !valid {
				break
			}
			seen[d.GetId()] = true
			all.Devices[i] = d
		}
		if valid != (refused == nil) {
			t.Fatalf("refused with %v, and valid is %t", refused, valid)
		}
		if !valid {
			return
		}
		all.Generation, all.Problems, all.SettingsRevision = changes.Generation, changes.Problems, changes.SettingsRevision
		whole, _ := newTestStore(t)
		parts, _ := newTestStore(t)
		if whole.Report("mock", w) != nil || parts.Report("mock", w) != nil {
			whole.Restarted("mock")
			parts.Restarted("mock")
		}
		sameReport(t, whole, parts, WireOf(&all), made)
	})
}

// BenchmarkChange is one device of 50,000 that changes, from the message to the snapshot,
// beside another that is left out, and beside the whole inventory in its place.
func BenchmarkChange(b *testing.B) {
	encoded := func(m proto.Message) []byte {
		data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		return data
	}
	devices := wireDevices(4_000)
	healthy, sick := devices[3_000], wireDevice(devices[3_000].GetId())
	sick.Health = &backendv1.Health{State: 2, Code: "x", Recovery: 1}
	first := encoded(inv(0, devices...))
	devices[3_000] = sick
	second := encoded(inv(0, devices...))
	devices[2_000] = &backendv1.Device{Id: devices[2_000].GetId()}
	defect := encoded(inv(0, devices...))
	changed := func(w *Wire, g uint64) (*Wire, error) {
		d := []*backendv1.Device{healthy, sick}[g%2]
		c, err := ParseChanges(encoded(&backendv1.Changes{Base: g - 1, Generation: g, Devices: []*backendv1.Device{d}}))
		if err != nil {
			return nil, err
		}
		return w.Change(c)
	}
	for name, next := range map[string]func(*Wire, uint64) (*Wire, error){
		"changes":       changed,
		"beside defect": changed,
		"whole": func(_ *Wire, g uint64) (*Wire, error) {
			w, err := ParseWire([][]byte{first, second}[g%2])
			w.generation = g
			return w, err
		},
	} {
		b.Run(name, func(b *testing.B) {
			s, _ := newTestStore(b)
			data := first
			if name == "beside defect" {
				data = defect
			}
			w, err := ParseWire(data)
			if err != nil {
				b.Fatal(err)
			}
			g := uint64(1)
			w.generation = g
			if err := s.Report("mock", w); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				g++
				if w, err = next(w, g); err != nil {
					b.Fatal(err)
				}
				if err := s.Report("mock", w); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

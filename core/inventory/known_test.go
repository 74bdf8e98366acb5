package inventory

import (
	"fmt"
	"testing"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Verifies that of a report with another list only devices with other bytes are decoded,
// wherever they are.
func TestUnchangedDevicesAreNotDecoded(t *testing.T) {
	s, _ := newTestStore(t)
	devices := wireDevices(5)
	if err := s.Report("mock", encode(t, inv(1, devices...))); err != nil {
		t.Fatal(err)
	}
	changed := wireDevice(devices[3].GetId())
	changed.PreparedFor = 77
	for name, c := range map[string]struct {
		listed  []*backendv1.Device
		decoded int
	}{
		"one less":      {[]*backendv1.Device{devices[0], devices[2], devices[3], devices[4]}, 0},
		"another order": {[]*backendv1.Device{devices[4], devices[0], devices[3]}, 0},
		"one more":      {append([]*backendv1.Device{wireDevice("new")}, devices...), 1},
		"one changed":   {[]*backendv1.Device{devices[4], changed, devices[2]}, 1},
	} {
		src := s.source("mock", false)
		wire, k, decoded := encode(t, inv(2, c.listed...)), src.known(), 0
		for i := range c.listed {
			if d := k.unchanged(wire.at(i)); d == nil {
				decoded++
			} else if d.ID != c.listed[i].GetId() {
				t.Errorf("%s: device %d is %s", name, i, d.ID)
			}
		}
		if decoded != c.decoded {
			t.Errorf("%s: %d are decoded, want %d", name, decoded, c.decoded)
		}
	}
}

// Verifies that beside devices with defects the others are not decoded again either, and
// that those are.
func TestUnchangedBesideDefects(t *testing.T) {
	s, _ := newTestStore(t)
	devices := wireDevices(6)
	devices[1].Class = "toaster"
	devices[3].Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY}
	if err := s.Report("mock", encode(t, inv(1, devices...))); err != nil {
		t.Fatal(err)
	}
	devices = devices[1:]
	wire, k := encode(t, inv(2, devices...)), s.source("mock", false).known()
	for i, w := range devices {
		d := k.unchanged(wire.at(i))
		if defect := i == 0 || i == 2; defect != (d == nil) || d != nil && d.ID != w.GetId() {
			t.Errorf("of %s comes %v", w.GetId(), d)
		}
	}
}

// Verifies that devices which a backend of another description could not have are not
// taken over from the report before.
func TestUnchangedDevicesOfAnotherDescription(t *testing.T) {
	s, _ := newTestStore(t)
	devices := wireDevices(3)
	mustReport(t, s, inv(1, devices...))
	if err := s.Report("mock", encode(t, inv(2, devices...))); err != nil {
		t.Fatal(err)
	}
	src := s.source("mock", false)
	desc := src.desc
	desc.Classes = []string{"toaster"}
	s.Describe("mock", desc, src.policy)
	other := wireDevice("new")
	other.Class = "toaster"
	if err := s.Report("mock", encode(t, inv(3, append(devices, other)...))); err != nil {
		t.Fatal(err)
	}
	if got := s.Snapshot().Backends[0]; len(got.Devices) != 1 || len(got.Problems) != 3 {
		t.Errorf("devices are %s, problems %s", ids(got.Devices), fmt.Sprint(got.Problems))
	}
}

// What a report allocates of which one device of many is new.
func BenchmarkOneMore(b *testing.B) {
	const count = 4_000
	devices := wireDevices(count)
	s, _ := newTestStore(b)
	mustReport(b, s, inv(1, devices...))
	if err := s.Report("mock", encode(b, inv(2, devices...))); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for generation := uint64(3); b.Loop(); generation++ {
		b.StopTimer()
		wire := encode(b, inv(generation, devices[:count-int(generation%2)]...))
		b.StartTimer()
		if err := s.Report("mock", wire); err != nil {
			b.Fatal(err)
		}
	}
}

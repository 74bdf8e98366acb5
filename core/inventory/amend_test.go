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
)

// Verifies that a report of which only few devices are new leaves what the same report
// leaves in a store that has seen none before, whatever becomes of the devices; also
// beside others with defects, which have them still.
func TestAmended(t *testing.T) {
	taken, beside := 0, 0
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		devices := wireDevices(12)
		s, _ := newTestStore(t)
		for g := uint64(1); g < 40; g++ {
			if g > 1 {
				devices = change(random, devices)
			}
			i := inv(g, devices...)
			wire := encode(t, i)
			if src := s.source("mock", false); src.backend != nil {
				if r, ok := src.amended("mock", wire); ok {
					taken++
					if src.defects != nil && len(r.changed) > 0 {
						beside++
					}
				}
			}
			fresh, _ := newTestStore(t)
			want, got := fresh.Report("mock", encode(t, i)), s.Report("mock", wire)
			if (want == nil) != (got == nil) {
				t.Fatalf("seed %d, report %d: %v, want %v", seed, g, got, want)
			}
			if want != nil {
				devices = wireDevices(12)
				continue
			}
			a, b := s.Snapshot().Backends[0], fresh.Snapshot().Backends[0]
			if !reflect.DeepEqual(a.Devices, b.Devices) || !slices.Equal(a.Problems, b.Problems) {
				t.Fatalf("seed %d, report %d: %v %+v\nwant %v %+v", seed, g, ids(a.Devices), a.Problems, ids(b.Devices), b.Problems)
			}
		}
	}
	if taken < 100 || beside < 50 {
		t.Errorf("only %d reports were taken by their differences, %d of them beside defects", taken, beside)
	}
}

// Verifies that a report is garbage, although no byte of it is new, once the policy that
// had refused all of its devices allows them and none is valid.
func TestNothingNewIsGarbage(t *testing.T) {
	s, _ := newTestStore(t)
	s.Describe("mock", testDesc, Policy{})
	d := wireDevice("a")
	d.Edits.DeviceNodes = append(d.Edits.DeviceNodes, d.Edits.DeviceNodes...)
	if err := s.Report("mock", encode(t, inv(1, d))); err != nil {
		t.Fatal(err)
	}
	s.Describe("mock", testDesc, testPolicy)
	if err := s.Report("mock", encode(t, inv(2, d))); err == nil || !strings.Contains(err.Error(), "none of its 1 devices is valid") {
		t.Errorf("the report is taken: %v", err)
	}
}

func encode(t testing.TB, i *backendv1.Inventory) *Wire {
	t.Helper()
	return parsed(t, i, ParseWire)
}

// parsed is what is read of a message as a backend sends it.
func parsed[T any](t testing.TB, message proto.Message, parse func([]byte) (*T, error)) *T {
	t.Helper()
	// Maps are encoded in any order otherwise, and every device would differ.
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	out, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// change is what may become of devices.
func change(random *rand.Rand, devices []*backendv1.Device) []*backendv1.Device {
	devices = slices.Clone(devices)
	n := random.IntN(len(devices))
	d := proto.CloneOf(devices[n])
	devices[n] = d
	other := devices[random.IntN(len(devices))].GetId()
	switch random.IntN(15) {
	case 0, 1:
		d.Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY, Code: "x", Recovery: backendv1.Recovery_RECOVERY_RESET}
	case 2, 3:
		d.Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY}
	case 4, 5:
		d.Capacities = map[string]int64{"memory": random.Int64N(3)}
	case 6:
		d.Links = []*backendv1.Link{{PeerId: other, Kind: backendv1.LinkKind_LINK_KIND_NVLINK}}
	case 7:
		d.ParentId = other
	case 8:
		d.Id = other
	case 9:
		d.Health = &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_UNHEALTHY}
	case 10:
		d.Class = "toaster"
	case 11:
		return append(devices, wireDevice(fmt.Sprint("more-", random.IntN(5))))
	case 12:
		if len(devices) > 3 {
			return slices.Delete(devices, n, n+1)
		}
	case 13:
		return wireDevices(12)
	case 14:
		d.NumaNodes = []uint32{0, 1} // the same in other words
	}
	return devices
}

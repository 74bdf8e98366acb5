package inventory

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

var (
	testScope = EditScope{
		Devices: []string{"/dev/**"}, Mounts: []string{"/opt/acme/**"}, Hooks: []string{"/usr/bin/acme-hook"},
		Env: []string{"ACME_*", "A", "E*"}, GIDs: []uint32{27, 44}, NetDevices: []string{"can*"},
	}
	// everything is a scope without bounds.
	everything = EditScope{
		Devices: []string{"/**"}, Mounts: []string{"/**"}, Hooks: []string{"/**"}, Env: []string{"*"}, GIDs: []uint32{27, 44, 77},
		NetDevices: []string{"*"},
	}
	testDesc = Description{
		Name: "mock", Vendor: "ACME", Version: "1.0.0", Classes: []string{"gpu", "fpga"}, Prepare: true, Release: true,
		Edits: everything,
	}
	testPolicy = Policy{Allowed: testScope, Declared: everything}
)

// clock is a time that only the test moves.
type clock struct{ t time.Time }

func newClock() *clock { return &clock{t: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)} }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

// wireDevice is a valid device with something in every field.
func wireDevice(id string) *backendv1.Device {
	return &backendv1.Device{
		Id: id, Class: "gpu",
		Health:    &backendv1.Health{State: backendv1.HealthState_HEALTH_STATE_HEALTHY, Message: "fine"},
		NumaNodes: []uint32{1, 0, 1}, PciBusId: "0000:65:00.0",
		Attributes: map[string]*backendv1.Attribute{
			"model":  {Value: &backendv1.Attribute_StringValue{StringValue: "M1"}},
			"cores":  {Value: &backendv1.Attribute_IntValue{IntValue: 64}},
			"mig":    {Value: &backendv1.Attribute_BoolValue{BoolValue: true}},
			"driver": {Value: &backendv1.Attribute_VersionValue{VersionValue: "535.104.5"}},
		},
		Capacities: map[string]int64{"memory": 1 << 30}, ParentId: "board-1", ResetGroup: "rack 1/board 1",
		Edits: &backendv1.ContainerEdits{
			Env:           map[string]string{"ACME_DEVICE": id},
			EnvSeparators: map[string]string{"ACME_DEVICE": ","},
			DeviceNodes:   []*backendv1.DeviceNode{{Path: "/dev/acme0"}},
			Mounts:        []*backendv1.Mount{{HostPath: "/opt/acme/lib", ContainerPath: "/usr/lib/acme", Options: []string{"nosuid"}}},
			Hooks: []*backendv1.OciHook{{HookName: "createContainer", Path: "/usr/bin/acme-hook", Args: []string{"acme-hook", "-v"},
				Env: []string{"A=b"}}},
			AdditionalGids: []uint32{44, 27, 44},
			NetDevices:     []*backendv1.NetDevice{{HostName: "can0"}},
		},
		Hooks:       []backendv1.Hook{backendv1.Hook_HOOK_PREPARE, backendv1.Hook_HOOK_RELEASE},
		PreparedFor: 3,
	}
}

func wireDevices(n int) []*backendv1.Device {
	out := make([]*backendv1.Device, n)
	for i := range out {
		out[i] = wireDevice(fmt.Sprintf("GPU-%04d", i))
	}
	return out
}

func inv(generation uint64, devices ...*backendv1.Device) *backendv1.Inventory {
	return &backendv1.Inventory{Generation: generation, Devices: devices}
}

func newTestStore(t testing.TB) (*Store, *clock) {
	t.Helper()
	c := newClock()
	s := NewStore(c.now)
	describe(s, "mock", testDesc, testPolicy)
	return s, c
}

// describe describes a backend, with a policy for it.
func describe(s *Store, backend string, d Description, p Policy) {
	s.mu.Lock()
	policies := maps.Clone(s.policies)
	s.mu.Unlock()
	if policies == nil {
		policies = map[string]Policy{}
	}
	policies[backend] = p
	s.SetPolicies(policies)
	s.Describe(backend, d)
}

// report has the store take an inventory.
func report(s *Store, backend string, w *backendv1.Inventory) error {
	if w == nil {
		return s.Report(backend, nil)
	}
	r, err := EncodeReport(w)
	if err != nil {
		return err
	}
	return s.Report(backend, r)
}

func mustReport(t testing.TB, s *Store, w *backendv1.Inventory) *Backend {
	t.Helper()
	if err := report(s, "mock", w); err != nil {
		t.Fatalf("Report: %v", err)
	}
	return s.Snapshot().Backends[0]
}

func woken(s *Store) bool {
	select {
	case <-s.Changed():
		return true
	default:
		return false
	}
}

func ids(devices []*Device) string {
	var out []string
	for _, d := range devices {
		out = append(out, d.ID)
	}
	return strings.Join(out, " ")
}

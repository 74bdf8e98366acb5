package gpu

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func tableOf(t *testing.T, s xid.Settings) Checks {
	t.Helper()
	table, err := xid.New("xid", s, xid.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	return Checks{Table: table}
}

// memoryOf returns the memory of a GPU in MIG mode with two MIG devices.
func memoryOf(t *testing.T, recovery *driver.RecoveryAction) *Memory {
	t.Helper()
	m := NewMemory()
	m.Take(Reading{Began: time.Now(), GPU: driver.GPU{
		UUID: uuidA, PCIBusID: busA, MIGEnabled: true, Condition: driver.Condition{Recovery: recovery},
		Instances: []driver.Instance{{UUID: "MIG-1", GPUInstance: 1}, {UUID: "MIG-2", GPUInstance: 2}},
	}}, tableOf(t, xid.Settings{}))
	return m
}

func event(code uint64, gpuInstance, computeInstance uint32) driver.Event {
	return driver.Event{Type: driver.EventXID, GPU: uuidA, XID: code, GPUInstance: gpuInstance, ComputeInstance: computeInstance}
}

func bad(h *sdk.Health) bool { return h.GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY }

// Verifies that an event of a MIG device affects only that device, and an event of the GPU all its
// MIG devices.
func TestEventsOfMIGDevices(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	k := memoryOf(t, nil)
	first, second := k.Instances[0], k.Instances[1]
	k.Event(event(48, 1, driver.Whole), table)
	if !bad(k.Instance(first)) || bad(k.Instance(second)) || bad(k.Health(table)) {
		t.Errorf("after an event of MIG-1: %v, %v, the GPU %v", k.Instance(first), k.Instance(second), k.Health(table))
	}
	k.Event(event(95, driver.Whole, driver.Whole), table)
	if !bad(k.Health(table)) || !bad(k.Partial()) || !bad(k.Instance(first)) || bad(k.Instance(second)) {
		t.Errorf("after an event of the GPU: %v, %v, the GPU %v", k.Instance(first), k.Instance(second), k.Health(table))
	}
}

// Verifies that an XID is a fault of the whole GPU, unless it affects only a MIG device and that
// device exists: NVIDIA's mock sends the instances 0 and 0 for a GPU without MIG devices, and no
// fault may be lost.
func TestEventsThatAreTheWholeGPUs(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	for name, c := range map[string]struct {
		mig   bool
		event driver.Event
		whole bool
	}{
		"no MIG, instances 0 and 0":                      {event: event(79, 0, 0), whole: true},
		"MIG, an instance that is there":                 {mig: true, event: event(48, 1, 0)},
		"MIG, no compute instance":                       {mig: true, event: event(48, 1, driver.Whole)},
		"MIG, an unknown GPU instance":                   {mig: true, event: event(48, 5, 0), whole: true},
		"MIG, an unknown compute instance":               {mig: true, event: event(48, 1, 3), whole: true},
		"MIG, an error that is contained in no instance": {mig: true, event: event(95, 1, 0), whole: true},
		"MIG, an event that is no XID":                   {mig: true, event: driver.Event{Type: driver.EventFatalPoison, GPU: uuidA, GPUInstance: 1}, whole: true},
	} {
		k := memoryOf(t, nil)
		k.MIGEnabled = c.mig
		if !c.mig {
			k.Instances = nil
		}
		k.Event(c.event, table)
		if got := bad(k.Health(table)); got != c.whole {
			t.Errorf("%s: the GPU is %v, want it unhealthy: %v", name, k.Health(table), c.whole)
		}
		if c.mig && !c.whole && !bad(k.Instance(k.Instances[0])) {
			t.Errorf("%s: the MIG device has no fault", name)
		}
	}
}

// Verifies that the fault of a destroyed MIG device becomes a fault of its GPU: the next MIG device
// may get the same part of the GPU.
func TestFaultOfADestroyedMIGDevice(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	k := memoryOf(t, nil)
	k.Event(event(48, 1, 0), table)
	k.Instances = k.Instances[1:]
	if h := k.Health(table); h.GetCode() != "xid-48" {
		t.Errorf("without the MIG device the GPU is %v", h)
	}
}

// Verifies that the gravest fault is reported, in any order of events.
func TestGraverStays(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	for _, order := range [][]uint64{{79, 48, 31}, {31, 48, 79}, {48, 79, 48}} {
		k := memoryOf(t, nil)
		for _, code := range order {
			k.Event(event(code, driver.Whole, driver.Whole), table)
		}
		if h := k.Health(table); h.GetCode() != "xid-79" {
			t.Errorf("after %v the GPU is %v, want xid-79", order, h)
		}
	}
}

// Verifies what clears faults of events: a reading that began after them and has the recovery action none, but not those that are
// faults only by the settings; and a renewal.
func TestClear(t *testing.T) {
	none, reset := driver.RecoveryNone, driver.RecoveryReset
	began := time.Now()
	table := tableOf(t, xid.Settings{Rows: map[string]xid.Verdict{"31": xid.Reset}})
	m, number := memoryOf(t, &reset), uint64(0)
	take := func(at time.Duration, recovery *driver.RecoveryAction, loads uint64) (initialized bool) {
		number++
		return m.Take(Reading{Began: began.Add(at), Number: number, Loads: loads, GPU: driver.GPU{UUID: uuidA, Condition: driver.Condition{Recovery: recovery}}}, table)
	}
	is := func(when, code string) {
		t.Helper()
		if h := m.Health(table); h.GetCode() != code || code == "" && !h.GetRecovered() {
			t.Errorf("%s the GPU is %v, want %q", when, h, code)
		}
	}
	happens := func(at time.Duration, code uint64) {
		e := event(code, driver.Whole, driver.Whole)
		e.Time = began.Add(at)
		m.Event(e, table)
	}
	happens(time.Second, 48)
	is("after the event", "xid-48")
	take(time.Second/2, &none, 0)
	is("after a reading from before the event", "xid-48")
	take(2*time.Second, &none, 0)
	is("after a reading that needs nothing", "")
	happens(time.Second, 31)
	take(3*time.Second, &none, 0)
	is("with a row of the settings", "xid-31")
	if take(4*time.Second, &none, 0) || !take(5*time.Second, &none, 1) {
		t.Error("only the last reading is one of another load of the driver")
	}
	m.Renew(Reading{Began: began.Add(5 * time.Second), Loads: 1})
	is("after a renewal", "")
	happens(4*time.Second, 79)
	is("after an event from before it", "")
	happens(6*time.Second, 79)
	is("after an event from after it", "xid-79")
}

// An event is judged by the table, not by a recovery action from before it.
func TestEventOfAGPUThatCannotBeRead(t *testing.T) {
	none := driver.RecoveryNone
	table := tableOf(t, xid.Settings{})
	for name, err := range map[string]error{"no reading": nil, "an error": driver.ErrNoAnswer} {
		m := memoryOf(t, &none)
		e := event(79, driver.Whole, driver.Whole)
		e.Time = m.Began.Add(time.Second)
		if err != nil {
			m.Take(m.Next(driver.GPU{UUID: uuidA, Err: err}, t.TempDir()).at(e.Time.Add(time.Second)), table)
		}
		m.Event(e, table)
		if h := m.Health(table); h.GetCode() != "xid-79" {
			t.Errorf("%s: the GPU is %v", name, h)
		}
	}
}

func (r Reading) at(began time.Time) Reading {
	r.Began, r.Number = began, 1
	return r
}

// Verifies that values that were read can be faults, and that the gravest fault is reported.
func TestConditions(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	off, err := xid.New("xid", xid.Settings{}, xid.Environment{Disable: "all"})
	if err != nil {
		t.Fatal(err)
	}
	yes, reset := true, driver.RecoveryReset
	for name, c := range map[string]struct {
		condition driver.Condition
		err       error
		fabric    string
		code      string
	}{
		"remapping pending":       {condition: driver.Condition{RemapPending: &yes}, code: "row-remap-pending"},
		"remapping failed":        {condition: driver.Condition{RemapPending: &yes, RemapFailed: &yes}, code: "row-remap-failed"},
		"retirement pending":      {condition: driver.Condition{RetiredPending: &yes}, code: "page-retirement-pending"},
		"repair pending":          {condition: driver.Condition{RepairPending: &yes}, code: "repair-pending"},
		"unrepairable":            {condition: driver.Condition{Unrepairable: &yes}, code: "memory-unrepairable"},
		"caches with many errors": {condition: driver.Condition{SRAMExceeded: &yes}, code: "sram-threshold-exceeded"},
		"unhealthy fabric":        {condition: driver.Condition{FabricUnhealthy: &yes}, code: "fabric-unhealthy"},
		"limited fabric":          {condition: driver.Condition{FabricLimited: &yes}},
		"fabric":                  {fabric: "in-progress", code: "fabric-not-ready"},
		"fabric without manager":  {fabric: "not-started", code: "fabric-not-ready"},
		"fabric that is set up":   {fabric: "completed"},
		"heat":                    {condition: driver.Condition{Overheated: &yes}, code: "overheated"},
		"heat, and lost memory":   {condition: driver.Condition{Overheated: &yes, RemapFailed: &yes}, code: "row-remap-failed"},
		"a recovery action":       {condition: driver.Condition{Recovery: &reset}, code: "recovery-reset"},
		"lost":                    {err: driver.ErrLost, code: "gpu-lost"},
		"lost, and needs a reset": {condition: driver.Condition{Recovery: &reset}, err: driver.ErrLost, code: "gpu-lost"},
		"needs a reset":           {err: driver.ErrReset, code: "reset-required"},
	} {
		k := memoryOf(t, nil)
		g := k.GPU
		g.Condition, g.Err, g.MIGEnabled = c.condition, c.err, false
		if c.fabric != "" {
			g.Fabric = &driver.Fabric{State: c.fabric}
		}
		k.Take(Reading{GPU: g, Number: 1, Began: time.Now()}, table)
		if h := k.Health(Checks{Table: off}); bad(h) {
			t.Errorf("%s: with all checks off the GPU is %v", name, h)
		}
		if h := k.Health(Checks{table.Table, map[string]bool{c.code: true}}); c.code != "" && h.GetCode() == c.code {
			t.Errorf("%s is ignored, and the GPU is %v", name, h)
		}
		if c.code != "" && !slices.Contains(Codes, c.code) {
			t.Errorf("%s cannot be ignored", c.code)
		}
		if h, reach := k.Health(table), strings.HasSuffix(c.code, "-pending"); reach != (h.GetReach() == sdk.ReachNewHolders) {
			t.Errorf("%s: %v, want it to reach new holders only: %v", name, h, reach)
		}
		if h := k.Health(table); h.GetCode() != c.code {
			t.Errorf("%s: the GPU is %v, want %s", name, h, c.code)
		}
	}
	// Heat that comes and goes is one fault until it stays away for a minute.
	k, began := memoryOf(t, nil), time.Now()
	for i, hot := range []bool{true, false, true, false, false, false} {
		g := k.GPU
		g.Condition.Overheated = &hot
		k.Take(Reading{GPU: g, Number: uint64(i + 1), Began: began.Add(time.Duration(i) * cools / 2)}, table) //nolint:gosec // small
		if got := bad(k.Health(table)); got != (i < 4) {
			t.Errorf("reading %d: the GPU is %v", i, k.Health(table))
		}
	}
	k = memoryOf(t, nil)
	k.Err = driver.ErrNoAnswer
	if h := k.Health(table); h.GetState() != backendv1.HealthState_HEALTH_STATE_UNKNOWN {
		t.Errorf("a GPU that does not answer is %v, want unknown", h)
	}
}

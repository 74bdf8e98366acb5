package gpu

import (
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func tableOf(t *testing.T, s xid.Settings) *xid.Table {
	t.Helper()
	table, err := xid.New("xid", s, xid.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// recordOf returns the record of a GPU in MIG mode with two MIG devices.
func recordOf(t *testing.T, recovery *driver.RecoveryAction) *Record {
	t.Helper()
	r := Records{}
	r.Take(driver.Snapshot{GPUs: []driver.GPU{{
		UUID: uuidA, PCIBusID: busA, MIGEnabled: true, Condition: driver.Condition{Recovery: recovery},
		Instances: []driver.Instance{{UUID: "MIG-1", GPUInstance: 1}, {UUID: "MIG-2", GPUInstance: 2}},
	}}}, noHost(t))
	return r[uuidA]
}

func event(code uint64, gpuInstance, computeInstance uint32) driver.Event {
	return driver.Event{Type: driver.EventXID, GPU: uuidA, XID: code, GPUInstance: gpuInstance, ComputeInstance: computeInstance}
}

func bad(h *sdk.Health) bool { return h.GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY }

// Verifies that an event of a MIG device affects only that device, and an event of the GPU all its
// MIG devices.
func TestEventsOfMIGDevices(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	k := recordOf(t, nil)
	first, second := k.GPU.Instances[0], k.GPU.Instances[1]
	k.judge(event(48, 1, driver.Whole), table)
	if !bad(k.instanceHealth(first)) || bad(k.instanceHealth(second)) || bad(k.Health(table)) {
		t.Errorf("after an event of MIG-1: %v, %v, the GPU %v", k.instanceHealth(first), k.instanceHealth(second), k.Health(table))
	}
	k.judge(event(95, driver.Whole, driver.Whole), table)
	if v := k.verdict(table); !bad(v.GPU) || !bad(v.Partial) || !bad(v.Instances["MIG-1"]) || bad(v.Instances["MIG-2"]) {
		t.Errorf("after an event of the GPU the verdict is %v", v)
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
		k := recordOf(t, nil)
		k.GPU.MIGEnabled = c.mig
		if !c.mig {
			k.GPU.Instances = nil
		}
		k.judge(c.event, table)
		if got := bad(k.Health(table)); got != c.whole {
			t.Errorf("%s: the GPU is %v, want it unhealthy: %v", name, k.Health(table), c.whole)
		}
		if c.mig && !c.whole && !bad(k.instanceHealth(k.GPU.Instances[0])) {
			t.Errorf("%s: the MIG device has no fault", name)
		}
	}
}

// Verifies that the fault of a destroyed MIG device becomes a fault of its GPU: the next MIG device
// may get the same part of the GPU.
func TestFaultOfADestroyedMIGDevice(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	k := recordOf(t, nil)
	k.judge(event(48, 1, 0), table)
	k.GPU.Instances = k.GPU.Instances[1:]
	if h := k.Health(table); h.GetCode() != "xid-48" {
		t.Errorf("without the MIG device the GPU is %v", h)
	}
}

// Verifies that the gravest fault is reported, in any order of events.
func TestGraverStays(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	for _, order := range [][]uint64{{79, 48, 31}, {31, 48, 79}, {48, 79, 48}} {
		k := recordOf(t, nil)
		for _, code := range order {
			k.judge(event(code, driver.Whole, driver.Whole), table)
		}
		if h := k.Health(table); h.GetCode() != "xid-79" {
			t.Errorf("after %v the GPU is %v, want xid-79", order, h)
		}
	}
}

// Verifies that the recovery action none clears faults of events, but not those that are faults only
// by the settings.
func TestClear(t *testing.T) {
	none, reset := driver.RecoveryNone, driver.RecoveryReset
	k := recordOf(t, &reset)
	table := tableOf(t, xid.Settings{Rows: map[string]xid.Verdict{"31": xid.Reset}})
	k.judge(event(48, driver.Whole, driver.Whole), table)
	if h := k.Health(table); !bad(h) {
		t.Fatalf("the GPU is %v", h)
	}
	k.GPU.Condition.Recovery = &none
	k.clear()
	if h := k.Health(table); bad(h) || !h.GetRecovered() {
		t.Errorf("the driver needs no recovery action, but the GPU is %v", h)
	}
	k.judge(event(31, driver.Whole, driver.Whole), table)
	k.clear()
	if h := k.Health(table); !bad(h) || h.GetCode() != "xid-31" {
		t.Errorf("settings make XID 31 a fault, but the GPU is %v", h)
	}
	k.initialize()
	if h := k.Health(table); bad(h) || !h.GetRecovered() {
		t.Errorf("the driver was reloaded, but the GPU is %v", h)
	}
}

// Verifies that values that were read can be faults, and that the gravest fault is reported.
func TestConditions(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	yes, reset := true, driver.RecoveryReset
	for name, c := range map[string]struct {
		condition driver.Condition
		err       error
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
		"heat":                    {condition: driver.Condition{Overheated: &yes}, code: "overheated"},
		"heat, and lost memory":   {condition: driver.Condition{Overheated: &yes, RemapFailed: &yes}, code: "row-remap-failed"},
		"a recovery action":       {condition: driver.Condition{Recovery: &reset}, code: "recovery-reset"},
		"lost":                    {err: driver.ErrLost, code: "gpu-lost"},
		"lost, and needs a reset": {condition: driver.Condition{Recovery: &reset}, err: driver.ErrLost, code: "gpu-lost"},
		"needs a reset":           {err: driver.ErrReset, code: "reset-required"},
	} {
		k := recordOf(t, nil)
		k.GPU.Condition, k.GPU.Err = c.condition, c.err
		if h := k.Health(table); h.GetCode() != c.code {
			t.Errorf("%s: the GPU is %v, want %s", name, h, c.code)
		}
	}
	k := recordOf(t, nil)
	k.GPU.Err = driver.ErrNoAnswer
	if h := k.Health(table); h.GetState() != backendv1.HealthState_HEALTH_STATE_UNKNOWN {
		t.Errorf("a GPU that does not answer is %v, want unknown", h)
	}
}

package nvidia

import (
	"testing"
	"time"

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

// recordOf is a GPU in MIG mode with two MIG devices.
func recordOf(t *testing.T, recovery *driver.RecoveryAction) *record {
	t.Helper()
	r := newRoster()
	r.take(driver.Snapshot{GPUs: []driver.GPU{{
		UUID: uuidA, PCIBusID: busA, MIGEnabled: true, Condition: driver.Condition{Recovery: recovery},
		Instances: []driver.Instance{{UUID: "MIG-1", GPUInstance: 1}, {UUID: "MIG-2", GPUInstance: 2}},
	}}}, time.Now(), t.TempDir(), nobody)
	return r.gpus[uuidA]
}

func happened(code uint64, gpuInstance, computeInstance uint32) driver.Event {
	return driver.Event{Type: driver.EventXID, GPU: uuidA, XID: code, GPUInstance: gpuInstance, ComputeInstance: computeInstance}
}

func bad(h *sdk.Health) bool { return h.GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY }

// An event of one MIG device touches only that one, an event of the GPU all.
func TestEventsOfMIGDevices(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	k := recordOf(t, nil)
	first, second := k.gpu.Instances[0], k.gpu.Instances[1]
	k.heard(happened(95, 1, driver.Whole), table)
	if !bad(k.instanceHealth(first)) || bad(k.instanceHealth(second)) || bad(k.health(table)) {
		t.Errorf("after an event of MIG-1: %v, %v, the GPU %v", k.instanceHealth(first), k.instanceHealth(second), k.health(table))
	}
	k.heard(happened(95, driver.Whole, driver.Whole), table)
	if !bad(k.health(table)) {
		t.Errorf("after an event of the GPU it is %v", k.health(table))
	}
}

// A lesser event never hides a graver one, in whatever order they come.
func TestGraverStays(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	for _, order := range [][]uint64{{79, 48, 31}, {31, 48, 79}, {48, 79, 48}} {
		k := recordOf(t, nil)
		for _, code := range order {
			k.heard(happened(code, driver.Whole, driver.Whole), table)
		}
		if h := k.health(table); h.GetCode() != "xid-79" {
			t.Errorf("after %v the GPU is %v, want xid-79", order, h)
		}
	}
}

// The driver's word ends what events told, but not what settings make a fault of
// against its word.
func TestRenew(t *testing.T) {
	none, reset := driver.RecoveryNone, driver.RecoveryReset
	k := recordOf(t, &reset)
	table := tableOf(t, xid.Settings{Rows: map[string]xid.Verdict{"31": xid.Reset}})
	k.heard(happened(48, driver.Whole, driver.Whole), table)
	if h := k.health(table); !bad(h) {
		t.Fatalf("the GPU is %v", h)
	}
	k.gpu.Condition.Recovery = &none
	k.renew()
	if h := k.health(table); bad(h) || !h.GetRecovered() {
		t.Errorf("the driver wants nothing, but the GPU is %v", h)
	}
	k.heard(happened(31, driver.Whole, driver.Whole), table)
	k.renew()
	if h := k.health(table); !bad(h) || h.GetCode() != "xid-31" {
		t.Errorf("settings make XID 31 a fault, but the GPU is %v", h)
	}
	k.reload()
	if h := k.health(table); bad(h) || !h.GetRecovered() {
		t.Errorf("the driver was loaded anew, but the GPU is %v", h)
	}
}

// What the GPU says when it is asked is a fault, and the gravest one is told.
func TestConditions(t *testing.T) {
	table := tableOf(t, xid.Settings{})
	yes, reset := true, driver.RecoveryReset
	for name, c := range map[string]struct {
		condition driver.Condition
		err       error
		code      string
	}{
		"remapping pending":      {condition: driver.Condition{RemapPending: &yes}, code: "row-remap-pending"},
		"remapping failed":       {condition: driver.Condition{RemapPending: &yes, RemapFailed: &yes}, code: "row-remap-failed"},
		"retirement pending":     {condition: driver.Condition{RetiredPending: &yes}, code: "page-retirement-pending"},
		"repair pending":         {condition: driver.Condition{RepairPending: &yes}, code: "repair-pending"},
		"unrepairable":           {condition: driver.Condition{Unrepairable: &yes}, code: "memory-unrepairable"},
		"the driver's own word":  {condition: driver.Condition{Recovery: &reset}, code: "recovery-reset"},
		"lost":                   {err: driver.ErrLost, code: "gpu-lost"},
		"lost, and asks a reset": {condition: driver.Condition{Recovery: &reset}, err: driver.ErrLost, code: "gpu-lost"},
		"needs a reset":          {err: driver.ErrReset, code: "reset-required"},
	} {
		k := recordOf(t, nil)
		k.gpu.Condition, k.gpu.Err = c.condition, c.err
		if h := k.health(table); h.GetCode() != c.code {
			t.Errorf("%s: the GPU is %v, want %s", name, h, c.code)
		}
	}
	k := recordOf(t, nil)
	k.gpu.Err = driver.ErrNoAnswer
	if h := k.health(table); h.GetState() != backendv1.HealthState_HEALTH_STATE_UNKNOWN {
		t.Errorf("a GPU that does not answer is %v, want unknown", h)
	}
}

package gpu

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Record is one GPU.
type Record struct {
	// GPU has the last values from NVML; if the GPU could not be read, those of an earlier reading
	// and the error.
	GPU driver.GPU
	// At is the GPU in sysfs; its vendor is zero if sysfs does not have it.
	At pci.Device
	// faults are the faults that events reported.
	faults map[scope]fault
	xids   xidCounts
	// given are the container edits of the GPU and of its MIG devices, by UUID.
	given map[string]given
	// initialized: the driver has initialized the GPU again, and no event has reported a fault since.
	initialized bool
	// wasLost: the GPU was lost, needed a reset or was not listed, and has passed no self-test
	// since. answering is the time of the first of its latest readings in a row without a fault;
	// zero if the last reading had one. answered: these readings have lasted for SelfTest.
	wasLost, answered bool
	answering         time.Time
	// missing: NVML does not list the GPU. node is then the problem with its device node;
	// "" if there is none.
	missing bool
	node    string
	// reset is the time of its last reset; zero once a scan has shown the result.
	reset time.Time
}

func newRecord() *Record { return &Record{faults: map[scope]fault{}, xids: xidCounts{}} }

// given are the container edits of a device, or why there are none.
type given struct {
	edits *sdk.Edits
	err   error
}

// fault is a fault that an event reported.
type fault struct {
	health *sdk.Health
	// despite: the settings make it a fault although the driver requires no recovery action. So
	// it is not cleared when the driver requires none.
	despite bool
}

// scope is a GPU as a whole, or one of its MIG devices.
type scope struct {
	gpuInstance, computeInstance uint32
}

var whole = scope{driver.Whole, driver.Whole}

// covers reports whether an event of scope s affects the MIG device.
func (s scope) covers(i driver.Instance) bool {
	return (s.gpuInstance == driver.Whole || s.gpuInstance == i.GPUInstance) &&
		(s.computeInstance == driver.Whole || s.computeInstance == i.ComputeInstance)
}

func (s scope) compare(o scope) int {
	return cmp.Or(cmp.Compare(s.gpuInstance, o.gpuInstance), cmp.Compare(s.computeInstance, o.computeInstance))
}

// update stores the values from NVML. A GPU that could not be read keeps its earlier values.
func (k *Record) update(g driver.GPU, sysfs string) {
	k.missing, k.node = false, ""
	before := k.GPU
	if g.Err != nil && before.UUID != "" {
		before.Err, before.Index = g.Err, g.Index
		before.PCIBusID = cmp.Or(g.PCIBusID, before.PCIBusID)
		g = before
	}
	k.GPU, k.At = g, deviceAt(sysfs, g.PCIBusID)
}

// give stores the container edits. A GPU that could not be read keeps its earlier
// ones.
func (k *Record) give(set *edits.Set) {
	if k.GPU.Err != nil || k.missing {
		return
	}
	k.given = map[string]given{}
	put := func(uuid string) {
		e, err := set.Of(uuid)
		k.given[uuid] = given{e, err}
	}
	put(k.GPU.UUID)
	for _, i := range k.GPU.Instances {
		put(i.UUID)
	}
}

// Edits returns the container edits of the GPU or of one of its MIG devices, or why there are none.
func (k *Record) Edits(uuid string) (*sdk.Edits, error) {
	return k.given[uuid].edits, k.given[uuid].err
}

// answerLimit is how long a GPU may take to answer after its reset.
const answerLimit = 30 * time.Second

var errResetting = errors.New("the GPU was reset and does not answer yet")

// Resetting reports whether the GPU was reset and has not answered since, for answerLimit at most.
func (k *Record) Resetting() bool { return errors.Is(k.GPU.Err, errResetting) }

// resetting sets the result of Resetting after a reading at now, and returns it. While it is true,
// the faults of the GPU stay as they are.
func (k *Record) resetting(now time.Time) bool {
	if k.reset.IsZero() || k.GPU.Err == nil && !k.missing {
		return false
	}
	if now.Sub(k.reset) >= answerLimit {
		k.reset = time.Time{}
		return false
	}
	k.GPU.Err, k.missing = errResetting, false
	return true
}

// recoveryAction returns the recovery action that the driver requires, which may be RecoveryNone;
// nil if the driver reports no such value, or the GPU could not be read.
func (k *Record) recoveryAction() *driver.RecoveryAction {
	if k.GPU.Err != nil {
		return nil // the value is from before the error
	}
	return k.GPU.Condition.Recovery
}

// needsNothing reports whether the driver reported last that no recovery action is needed.
func (k *Record) needsNothing() bool {
	action := k.GPU.Condition.Recovery
	return action != nil && *action == driver.RecoveryNone
}

// hasInstance reports whether s covers existing MIG devices, and not the whole GPU.
func (k *Record) hasInstance(s scope) bool {
	return s != whole && k.GPU.MIGEnabled && slices.ContainsFunc(k.GPU.Instances, s.covers)
}

const (
	// maxXIDs bounds the codes that are counted separately for each GPU. All further codes are
	// counted together.
	maxXIDs = 64
	// otherXIDs is the label of the further codes.
	otherXIDs = "other"
)

// xidCounts counts XIDs by code, since the process started.
type xidCounts map[string]uint64

func (c xidCounts) add(code uint64) {
	label := strconv.FormatUint(code, 10)
	if _, known := c[label]; !known && len(c) >= maxXIDs {
		label = otherXIDs
	}
	c[label]++
}

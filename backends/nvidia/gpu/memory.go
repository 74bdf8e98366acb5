package gpu

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Memory is what is known of a GPU: its newest reading, and what events have reported. It is not safe for concurrent use.
type Memory struct {
	// Reading is the newest.
	Reading
	// faults are the faults that events reported.
	faults map[scope]fault
	xids   xidCounts
	// renewed is the time of the last reset, or reload of the driver: events from before count no more.
	renewed time.Time
	// wasLost: the GPU was lost, needed a reset or was not listed, and has passed no self-test
	// since. answering is the time of the first of its latest readings in a row without a fault;
	// zero if the last reading had one. answered: these readings have lasted for SelfTest.
	wasLost, answered bool
	answering         time.Time
	// hot is the time of the last reading that found it too hot.
	hot time.Time
}

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{faults: map[scope]fault{}, xids: xidCounts{}} }

// fault is a fault that an event reported.
type fault struct {
	health *sdk.Health
	at     time.Time
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

// Take takes a reading, unless a newer one was taken. It reports whether the GPU was initialized again since the one before:
// the driver was loaded again, or the GPU, which was lost, has passed its self-test.
func (m *Memory) Take(r Reading, checks Checks) (initialized bool) {
	if m.UUID != "" && r.Number <= m.Number {
		return false
	}
	initialized = m.UUID != "" && r.Err == nil && r.Loads != m.Loads
	if before := m.Loads; r.Err != nil {
		r.Loads = before // the GPU is not initialized yet
	}
	if m.Reading = r; r.Err == nil && is(r.Condition.Overheated) {
		m.hot = r.Began
	}
	m.clear()
	return m.test(checks) || initialized
}

// Renew records that the GPU was reset, or its driver loaded again, which removes the faults that events reported before.
func (m *Memory) Renew(r Reading) {
	clear(m.faults)
	m.renewed, m.wasLost = time.Now(), false
	if r.Loads != m.Loads { // its events are received since the reading
		m.renewed, m.Loads = r.Began, r.Loads
	}
}

// FaultyAfter reports whether the GPU has a fault, as far as it is known after a reading that may not be taken.
func (m *Memory) FaultyAfter(r Reading, checks Checks) bool {
	after := Memory{Reading: r, faults: maps.Clone(m.faults), hot: m.hot}
	after.clear()
	return after.Health(checks).GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY
}

// clear removes the faults that events reported before the reading, if the driver requires no recovery action. Faults
// with despite set stay.
func (m *Memory) clear() {
	if m.Err == nil && m.needsNothing() {
		maps.DeleteFunc(m.faults, func(_ scope, f fault) bool { return !f.despite && f.at.Before(m.Began) })
	}
}

// SelfTest is how long a GPU must answer without an error to clear earlier faults: all faults of a
// GPU that was lost, otherwise those with the codes codeGone, codeLost and codeReset. It is the
// evidence on drivers that report no recovery action.
const SelfTest = time.Minute

// test continues the self-test of a GPU each time it was read, and reports whether one that was lost has passed it. The driver
// uses a lost GPU again only after it has initialized it from the start. So a GPU that answers for SelfTest, without an error
// event and with none of the conditions, has been initialized, as after a reload of the driver.
func (m *Memory) test(checks Checks) (passed bool) {
	switch {
	case errors.Is(m.Err, driver.ErrLost) || errors.Is(m.Err, driver.ErrReset) || errors.Is(m.Err, errUnlisted):
		m.wasLost, m.answered, m.answering = true, false, time.Time{}
	case m.Err != nil || len(m.conditions(checks)) > 0:
		m.answered, m.answering = false, time.Time{}
	case m.answering.IsZero():
		m.answering = m.Began
	case m.Began.Sub(m.answering) >= SelfTest:
		passed = m.wasLost
		m.answered, m.wasLost = true, false
	}
	return passed
}

// recoveryAction returns the recovery action that the driver requires, which may be RecoveryNone;
// nil if the driver reports no such value, or the GPU could not be read.
func (m *Memory) recoveryAction() *driver.RecoveryAction {
	if m.Err != nil {
		return nil // the value is from before the error
	}
	return m.Condition.Recovery
}

// needsNothing reports whether the driver reported last that no recovery action is needed.
func (m *Memory) needsNothing() bool {
	action := m.Condition.Recovery
	return action != nil && *action == driver.RecoveryNone
}

// hasInstance reports whether s covers existing MIG devices, and not the whole GPU.
func (m *Memory) hasInstance(s scope) bool {
	return s != whole && m.MIGEnabled && slices.ContainsFunc(m.Instances, s.covers)
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

// XIDs returns how many XIDs there were by code, since the process started.
func (m *Memory) XIDs() map[string]uint64 { return m.xids }

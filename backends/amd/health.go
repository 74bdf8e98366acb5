package amd

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/amd/ras"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

// cools is the time after the last event for which heat is taken to throttle a card.
const cools = time.Minute

// vendor is what the engine asks about AMD GPUs, by one configuration. Its methods run in the
// engine's loop.
type vendor struct {
	log *slog.Logger
	cfg *config
}

// memory is what is remembered of a card. It is used only in the engine's loop.
type memory struct {
	// counters are the last that could be read; their XGMI is the sum of all readings.
	counters ras.Counters
	// busy: the last reading found the card in reset. err is what it could not read.
	busy bool
	err  error
	// links are the errors of the XGMI links from before the last reset: they are no fault, as
	// the uncorrectable errors of [cured] are none. stale: the next reading sets both.
	links uint64
	stale bool
	// renewals is [engine.KnownUnit.Renewals] when the memory was used last.
	renewals uint64
	// wedged is a fault that the driver reported by a uevent.
	wedged *sdk.Health
	// hot is the time of the last event of heat.
	hot time.Time
	// exporter is how AMD's exporter calls the state of an unhealthy card; empty for others.
	exporter string
	// refused has the compute modes that the driver refuses for good, and why.
	refused map[modes]string
}

// modes are a memory mode and a compute mode.
type modes struct{ memory, compute string }

// refuse records why the driver refuses a compute mode while the card has the memory mode.
func (m *memory) refuse(what modes, why error) {
	if m.refused == nil {
		m.refused = map[modes]string{}
	}
	m.refused[what] = why.Error()
}

// memoryOf returns the memory of a card, without events from before its last reset or reload of
// its driver.
func memoryOf(u *engine.KnownUnit) *memory {
	m, ok := u.Memory.(*memory)
	if !ok {
		m = &memory{}
		u.Memory = m
	}
	if renewals := u.Renewals(); m.renewals != renewals {
		m.renewals, m.wedged, m.hot, m.stale = renewals, nil, time.Time{}, true
	}
	return m
}

// Sensed implements [engine.Counter] with a reading of the error counters.
func (v vendor) Sensed(u *engine.KnownUnit, senses any) (changed bool) {
	m := memoryOf(u)
	read, _ := senses.(reading)
	if read.unplugged {
		return false
	}
	if m.busy, m.err = read.Busy, read.err; m.busy {
		return false // the others are unknown now
	}
	seen := m.counters.XGMI
	if m.counters = read.Counters; read.XGMI.Known {
		if v.cfg.health.XGMI == report && read.XGMI.N > 0 {
			v.log.Warn("XGMI links counted errors", "device", u.Unit.ID, "errors", read.XGMI.N)
		}
		seen = seen.Plus(read.XGMI)
	}
	m.counters.XGMI = seen
	// A driver that was loaded again counts from the beginning; a counter that cannot be read is not less.
	uncorrectable := m.counters.Uncorrectable().N
	if m.stale || m.err == nil && uncorrectable < v.cfg.cured.of(u.Unit.ID) {
		v.cfg.cured.set(u.Unit.ID, uncorrectable)
	}
	if m.stale {
		m.links, m.stale = seen.N, false
	}
	return false
}

// Faults implements [engine.Vendor]. A fault of a card is one of all its partitions.
func (v vendor) Faults(d *engine.KnownDevice) (own, shared *sdk.Health) {
	p, m := partIn(d.Read), memoryOf(d.Unit)
	if p.missing != "" {
		own = sdk.Fault("partition-incomplete", sdk.RecoverySelf, p.missing)
	}
	if d.Unit.Absent() {
		m.refused = nil // the driver is being loaded again
	}
	if p.onDemand != nil && !p.current {
		if why := m.refused[modes{cardIn(d.Unit.Unit).Memory, p.mode.Name}]; why != "" {
			own = sdk.Fault("mode-refused", sdk.RecoverySelf, fmt.Sprintf(
				"the GPU cannot be switched to %s: %s. This is tried again only after the memory mode has changed, the driver was loaded again or the agent restarted", p.mode.Name, why))
		}
	}
	shared = m.wedged
	for _, found := range []*sdk.Health{m.reset(), v.errors(d.Unit.Unit.ID, m), v.pages(m), v.links(m), v.heat(m), v.exported(m)} {
		shared = sdk.Graver(shared, found)
	}
	if shared == nil && m.err != nil {
		shared = sdk.Unknown(m.err.Error())
	}
	return own, shared
}

func (m *memory) reset() *sdk.Health {
	if !m.busy {
		return nil
	}
	return sdk.Fault("resetting", sdk.RecoverySelf, "the GPU is in reset: it does not count errors now")
}

// errors returns the fault of a card with uncorrectable errors.
func (v vendor) errors(id string, m *memory) *sdk.Health {
	n, before := m.counters.Uncorrectable().N, v.cfg.cured.of(id)
	if n <= before || n-before <= v.cfg.health.Uncorrectable {
		return nil
	}
	var blocks []string
	for _, name := range slices.Sorted(maps.Keys(m.counters.Blocks)) {
		if e := m.counters.Blocks[name].Uncorrectable; e.N > 0 {
			blocks = append(blocks, fmt.Sprintf("%s: %d", name, e.N))
		}
	}
	since := "the driver was loaded"
	if before > 0 {
		since = fmt.Sprintf("the last reset, and %d before it", before)
	}
	return sdk.Fault("ecc-uncorrectable", sdk.RecoveryReset, fmt.Sprintf(
		"%d uncorrectable errors since %s (%s): reset the GPU when nothing uses it", n-before, since, strings.Join(blocks, ", ")))
}

// pages returns the fault of a card whose memory has bad pages.
func (v vendor) pages(m *memory) *sdk.Health {
	p := m.counters.Pages
	bad := p.Retired + p.Pending + p.Failed
	switch limit := v.cfg.health.BadPages; {
	case limit > 0 && bad > limit:
		return sdk.Fault("bad-pages", sdk.RecoveryReplacement, fmt.Sprintf(
			"%d pages of the memory are bad, more than %d (health.badPages): replace the GPU", bad, limit))
	case p.Pending+p.Failed > 0:
		return sdk.Fault("bad-pages-pending", sdk.RecoveryReset, fmt.Sprintf(
			"%d bad pages of the memory are still in use: reset the GPU when nothing uses it", p.Pending+p.Failed))
	}
	return nil
}

// links returns the fault of a card whose XGMI links count errors.
func (v vendor) links(m *memory) *sdk.Health {
	n := m.counters.XGMI.N
	if v.cfg.health.XGMI != fault || n <= m.links {
		return nil
	}
	return sdk.Fault("xgmi-errors", sdk.RecoveryReset, fmt.Sprintf("%d errors of the XGMI links: reset the GPUs of the hive", n-m.links))
}

func (v vendor) heat(m *memory) *sdk.Health {
	if v.cfg.health.Thermal != fault || m.hot.IsZero() || time.Since(m.hot) >= cools {
		return nil
	}
	return sdk.Fault("thermal-throttle", sdk.RecoverySelf, "heat throttles the GPU: check its cooling")
}

// exported returns the fault that AMD's exporter reports.
func (v vendor) exported(m *memory) *sdk.Health {
	if v.cfg.health.Exporter == "" || m.exporter == "" {
		return nil
	}
	return sdk.Fault("exporter-unhealthy", sdk.RecoverySelf, "AMD's device metrics exporter reports the GPU as "+m.exporter+": see its log")
}

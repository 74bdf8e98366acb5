package amd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// resetLimit is how long a reset that the driver began may take.
	resetLimit = 2 * time.Minute
	// hangs is how long a reading may take before it is told of.
	hangs = 5 * time.Second
	// cools is how long after the last event heat is taken to slow a card down.
	cools = time.Minute
)

// health is what is said of the card, and so of all its partitions.
func (k *record) health(cfg *config, now time.Time) *sdk.Health {
	worst := k.wedged
	// Of equal faults the first counts: a card that is being reset refuses to tell much,
	// which is no fault of its own.
	for _, found := range []*sdk.Health{k.reset(now), k.absent, k.errors(cfg), k.pages(cfg), k.links(cfg), k.heat(cfg, now), k.opinion()} {
		worst = sdk.Graver(worst, found)
	}
	if worst != nil {
		return worst
	}
	n := k.counts
	switch {
	case !n.reading.IsZero() && now.Sub(n.reading) >= hangs:
		return sdk.Unknown(fmt.Sprintf("reading the error counters of %s has not come to an end since %s: the driver hangs, see the kernel's log",
			k.gpu.PCI.Address, n.reading.UTC().Format(time.RFC3339)))
	case n.at.IsZero():
		return sdk.Unknown("the error counters were not read yet")
	case n.err != nil:
		return sdk.Unknown(n.err.Error())
	case k.fresh:
		return sdk.Recovered()
	}
	return sdk.Healthy()
}

// reset is the fault of a card that is being reset.
func (k *record) reset(now time.Time) *sdk.Health {
	switch {
	case k.resetting.IsZero() && !k.unseen.IsZero():
		return sdk.Fault("resetting", sdk.RecoverySelf, "the GPU was reset, and is looked at before it counts as sound")
	case k.resetting.IsZero() && k.counts.last.Busy:
		return sdk.Fault("resetting", sdk.RecoverySelf, "the GPU is being reset: it does not count errors now")
	case k.resetting.IsZero():
		return nil
	case now.Before(k.resetBy):
		return sdk.Fault("resetting", sdk.RecoverySelf, "the GPU is being reset: what ran on it is lost")
	}
	return sdk.Fault("reset-failed", sdk.RecoveryReset, fmt.Sprintf(
		"the driver began to reset the GPU at %s and never said that it worked: see the kernel's log, reset the GPU again, or reboot the node",
		k.resetting.UTC().Format(time.RFC3339)))
}

// errors is the fault of a card that counted uncorrectable errors.
func (k *record) errors(cfg *config) *sdk.Health {
	c := k.counts.last
	n := c.Uncorrectable()
	if !n.Known || n.N <= k.counts.baseline || n.N-k.counts.baseline <= cfg.health.Uncorrectable {
		return nil
	}
	var blocks []string
	for _, name := range slices.Sorted(maps.Keys(c.Blocks)) {
		if e := c.Blocks[name].Uncorrectable; e.N > 0 {
			blocks = append(blocks, fmt.Sprintf("%s: %d", name, e.N))
		}
	}
	since := "the driver was loaded"
	if k.counts.baseline > 0 {
		since = fmt.Sprintf("the last reset, and %d before it", k.counts.baseline)
	}
	return sdk.Fault("ecc-uncorrectable", sdk.RecoveryReset, fmt.Sprintf(
		"%d uncorrectable errors since %s (%s): reset the GPU when nothing uses it", n.N-k.counts.baseline, since, strings.Join(blocks, ", ")))
}

// pages is the fault of a card whose memory has bad pages.
func (k *record) pages(cfg *config) *sdk.Health {
	p := k.counts.last.Pages
	retired := p.Retired + p.Pending + p.Failed
	switch limit := cfg.health.BadPages; {
	case limit > 0 && retired > limit:
		return sdk.Fault("bad-pages", sdk.RecoveryReplacement, fmt.Sprintf(
			"%d pages of the memory are bad, more than %d (health.badPages): replace the GPU", retired, limit))
	case p.Pending+p.Failed > 0:
		return sdk.Fault("bad-pages-pending", sdk.RecoveryReset, fmt.Sprintf(
			"%d bad pages of the memory are still in use: reset the GPU when nothing uses it", p.Pending+p.Failed))
	}
	return nil
}

// links is the fault of a card whose XGMI links count errors.
func (k *record) links(cfg *config) *sdk.Health {
	n := k.counts.last.XGMI
	if cfg.health.XGMI != fault || n.N <= k.counts.links {
		return nil
	}
	return sdk.Fault("xgmi-errors", sdk.RecoveryReset, fmt.Sprintf("%d errors of the XGMI links: reset the GPUs of the hive", n.N-k.counts.links))
}

func (k *record) heat(cfg *config, now time.Time) *sdk.Health {
	if cfg.health.Thermal != fault || k.hot.IsZero() || now.Sub(k.hot) >= cools {
		return nil
	}
	return sdk.Fault("thermal-throttle", sdk.RecoverySelf, "heat slows the GPU down: see to its cooling")
}

func (k *record) opinion() *sdk.Health {
	if k.bad == "" {
		return nil
	}
	return sdk.Fault("exporter-unhealthy", sdk.RecoverySelf, "AMD's device metrics exporter calls the GPU "+k.bad+": see its log")
}

// turns is when the health may be another though nothing is heard; zero for never.
func (k *record) turns(now time.Time) time.Time {
	var next time.Time
	for _, at := range []time.Time{k.resetBy, later(k.hot, cools), later(k.counts.reading, hangs)} {
		if at.After(now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func later(t time.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(d)
}

// wedge says what becomes of a card of which the driver says, by a uevent, how it can
// be had back: WEDGED=<method>[,<method> …], from the lightest on
// (Documentation/gpu/drm-uapi.rst). It is nil if nothing is to be done.
func wedge(methods string) *sdk.Health {
	switch first, _, _ := strings.Cut(methods, ","); first {
	case "none", "":
		return nil
	case "rebind", "bus-reset", "vendor-specific":
		return sdk.Fault("wedged", sdk.RecoveryReset, "the driver could not mend the GPU and asks for "+first+": reset the GPU when nothing uses it")
	}
	return sdk.Fault("wedged", sdk.RecoveryReboot, "the driver could not mend the GPU: see the kernel's log, and reboot the node")
}

func isFault(h *sdk.Health) bool {
	return h.GetState() == backendv1.HealthState_HEALTH_STATE_UNHEALTHY
}

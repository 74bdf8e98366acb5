package fpga

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

func sensesIn(u *engine.KnownUnit) driver.Senses {
	senses, _ := u.Senses.(driver.Senses)
	return senses
}

// Sensed implements [engine.Counter]. It logs new alarms where settings want that.
func (v vendor) Sensed(u *engine.KnownUnit, read any) (changed bool) {
	before := sensesIn(u)
	now, _ := read.(driver.Senses)
	if v.cfg.Health.Alarms == report {
		for _, alarm := range now.Faults {
			raised := func(f driver.Fault) bool { return f.Code == alarm.Code && f.Cause == alarm.Cause }
			if !slices.ContainsFunc(before.Faults, raised) && !v.cfg.ignores(alarm) {
				v.log.Warn("sensor alarm", "card", u.Unit.ID, "code", alarm.Code, "message", alarm.Text)
			}
		}
	}
	return !slices.Equal(before.Implausible, now.Implausible)
}

// Problems implements [engine.Counter]: sensors that report impossible values.
func (vendor) Problems(u *engine.KnownUnit) []string {
	const shown = 3
	names := sensesIn(u).Implausible
	if len(names) == 0 {
		return nil
	}
	more := ""
	if n := len(names) - shown; n > 0 {
		names, more = names[:shown], fmt.Sprintf(" and %d more", n)
	}
	return []string{fmt.Sprintf("%s: sensors %s%s report impossible values, which are left out of the metrics: check whether the firmware of the card's controller is current",
		u.Unit.ID, strings.Join(names, ", "), more)}
}

// Count implements [engine.Counter].
func (vendor) Count(u *engine.KnownUnit, device string) []*sdk.Metric {
	card := cardIn(u.Unit)
	metrics := counts(device, card.Counts)
	for _, region := range card.Regions {
		metrics = append(metrics, counts(region.ID, region.Counts)...)
	}
	return metrics
}

func counts(device string, all []driver.Count) []*sdk.Metric {
	metrics := make([]*sdk.Metric, 0, len(all))
	for _, c := range all {
		m := sdk.Gauge(device, c.Name, c.Value)
		if c.Grows {
			m = sdk.Counter(device, c.Name, c.Value)
		}
		if c.Label != "" {
			m.Labels = map[string]string{"register": c.Label}
		}
		metrics = append(metrics, m)
	}
	return metrics
}

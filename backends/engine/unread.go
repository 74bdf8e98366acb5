package engine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
)

// named returns that these devices could not be looked at.
func named(devices []*sdk.Device, err error) (unread []*sdk.Unread) {
	for _, d := range devices {
		unread = append(unread, &sdk.Unread{DeviceId: d.GetId(), Reason: err.Error()})
	}
	return unread
}

// unlisted returns what could not be looked at and is not known by this process: an earlier one may have listed it.
func (l *loop) unlisted() (unread []*sdk.Unread) {
	all := func(reason string) { unread = append(unread, &sdk.Unread{Reason: reason}) }
	for _, s := range l.sources {
		switch {
		case s.last.Err != nil:
			all(s.last.Err.Error())
			continue
		case s.last.number == 0: // it hangs, or the machine changes all the time
			all(fmt.Sprintf("the %ss of the driver %s were not read yet since %s", l.options.Hardware, s.driver.Name(), s.lastScan.UTC().Format(time.RFC3339)))
			continue
		}
		for _, at := range slices.SortedFunc(maps.Keys(s.last.Away), pci.Address.Compare) {
			unread = append(unread, &sdk.Unread{PciBusId: at.String(), Reason: s.last.Away[at]})
		}
		for _, p := range s.last.Problems {
			if at, err := pci.ParseAddress(p.name()); p.Lost && err == nil {
				unread = append(unread, &sdk.Unread{PciBusId: at.String(), Reason: p.Err.Error()})
			} else if p.Lost && !slices.ContainsFunc(l.roster.of(s), p.isOf) {
				all(p.Err.Error())
			}
		}
	}
	return unread
}

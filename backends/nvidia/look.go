package nvidia

import (
	"slices"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// look is what one look found, by which settings.
type look struct {
	cfg      *config
	began    time.Time
	snapshot driver.Snapshot
	stream   *driver.Stream // a new one, or nil
	made     made
	// mismatched are GPUs that only one of the kernel and the driver lists.
	mismatched []mismatch
	// quick says that only health was looked at, since only events asked for it.
	quick bool
	// only are the GPUs that were asked; all if there are none.
	only []string
	err  error
}

// asked reports whether the look has asked the GPU.
func (f *look) asked(uuid string) bool { return len(f.only) == 0 || slices.Contains(f.only, uuid) }

// suspects are the GPUs that the pending events are of; none if all GPUs are to be
// asked, since an event is of another one, or it is time.
func (l *loop) suspects() []string {
	if !l.others.IsZero() && !time.Now().Before(l.others) {
		return nil
	}
	var all []string
	for _, event := range l.pending {
		uuid := l.concerned(event)
		if uuid == "" {
			return nil
		}
		if !slices.Contains(all, uuid) {
			all = append(all, uuid)
		}
	}
	return all
}

func uuids(s driver.Snapshot) []string {
	var all []string
	for _, g := range s.GPUs {
		if g.UUID != "" {
			all = append(all, g.UUID)
		}
	}
	slices.Sort(all)
	return all
}

package device

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/device/description"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/made"
)

// functionRecord has the functions that Prepare made, each with its holder. Virtual functions do not outlive
// the kernel, so there is a file for each boot.
type functionRecord struct {
	*made.Record
	path string
}

// functionRecord returns the record for the settings, also if no kind has functions any more: claims may have some
// still. It is nil if there can be none. There is one of a file in a process.
func (b *Backend) functionRecord(cfg *config) (*functionRecord, error) {
	makes := slices.ContainsFunc(cfg.kinds, func(k *description.Compiled) bool { return k.Functions != nil })
	records := b.recordsOf(cfg)
	boot, err := records.boot()
	if err != nil {
		if !makes {
			err = nil
		}
		return b.functionsMade(), err
	}
	const name = ".functions-" // an ID does not begin with a dot
	at := filepath.Join(records.dir, name+boot)
	if now := b.functionsMade(); now != nil && now.path == at {
		return now, nil
	}
	if makes {
		if err := os.MkdirAll(records.dir, 0o700); err != nil {
			return nil, err
		}
	}
	for _, pattern := range []string{name, "." + name} { // the second are drafts of package made
		all, err := filepath.Glob(filepath.Join(records.dir, pattern+"*"))
		if err != nil {
			return nil, err
		}
		for _, other := range all {
			if !strings.HasSuffix(other, name+boot) { // an agent that is replaced may write its draft still
				_ = os.Remove(other) // of another boot: never read again
			}
		}
	}
	r, err := made.Open(at)
	return &functionRecord{r, at}, err
}

func (b *Backend) functionsMade() *functionRecord {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.made
}

// madeFunction is a function in the record.
type madeFunction struct {
	// physical is the address of the physical function, number is [function.number], and id that of the device.
	physical string
	number   int
	id       string
}

// key is the text of a function in the record.
func (m madeFunction) key() string { return fmt.Sprintf("%s/%d/%s", m.physical, m.number, m.id) }

func parseMade(key string) (m madeFunction) {
	var number string
	m.physical, key, _ = strings.Cut(key, "/")
	number, m.id, _ = strings.Cut(key, "/")
	m.number, _ = strconv.Atoi(number)
	return m
}

// all returns the functions with their holders.
func (r *functionRecord) all() map[madeFunction]string {
	all := map[madeFunction]string{}
	if r == nil {
		return all
	}
	for key, holder := range r.Devices() {
		all[parseMade(key)] = holder
	}
	return all
}

// of returns the holders of the functions of a physical one, by number.
func (r *functionRecord) of(physical string) map[int]string {
	all := map[int]string{}
	for m, holder := range r.all() {
		if m.physical == physical {
			all[m.number] = holder
		}
	}
	return all
}

// madeFor returns the function that was made as a device for a holder.
func (r *functionRecord) madeFor(holder, id string) (m madeFunction, ok bool) {
	for m, of := range r.all() {
		if of == holder && m.id == id {
			return m, true
		}
	}
	return madeFunction{}, false
}

// beside returns the units that a kind without functions lists. On a card with functions in the record, a function that is
// in the record belongs to its holder: the kind had functions before. Others are left out, as the end of the last claim
// removes all, and so is the physical function, but not its interfaces. The record is read after the devices, as it has a
// function before that is made.
func (s source) beside(units []engine.Unit) (kept []engine.Unit, problems []engine.Problem) {
	recorded := s.made.all()
	if s.kind.Functions != nil || len(recorded) == 0 {
		return units, nil
	}
	for _, u := range units {
		f, err := s.recordedAs(u, recorded)
		if err != nil {
			problems = append(problems, engine.Problem{Device: path.Base(u.Dir), Lost: true, Err: s.wrong(err)})
			continue
		}
		if f != nil {
			r := readingIn(u.Devices[0])
			r.function = f
			u.Devices[0].Vendor = r
		}
		kept = append(kept, u)
	}
	return kept, problems
}

// recordedAs returns what a device is in the record; nil for nothing. It is an error for one on such a card that
// cannot be given out.
func (s source) recordedAs(u engine.Unit, recorded map[madeFunction]string) (f *function, err error) {
	for _, at := range u.Devices[0].Functions {
		o, wrong := s.finder.FunctionAt(at.String())
		if wrong != nil {
			continue // it went
		}
		physical := physicalOf(o)
		for m, holder := range recorded {
			if m.physical != physical {
				continue
			}
			if m.id == u.ID {
				p, wrong := s.finder.PhysicalAt(physical)
				return &function{of: p, number: m.number, holder: holder}, wrong
			}
			if physical != o.Name || s.kind.Match.PCI != nil {
				err = fmt.Errorf("functions of the card %s were made for claims that have not ended, and this kind has no functions: "+
					"have only kinds with functions match the card, or end these claims", physical)
			}
		}
	}
	return nil, err
}

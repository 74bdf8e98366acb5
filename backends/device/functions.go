package device

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// function is what a device of a kind with functions is: a virtual function, or the physical one as a whole.
//
//	is there    in the record                         listed as
//	yes, no     another function of the physical one  potential
//	yes         it                                    made for the holder
//	yes         it, and it does not match the kind    made for the holder, as it will be when it is prepared
//	no          it                                    made for the holder, with a fault
//	yes         none of the physical one              an ordinary device: made by hand
//	no          none of the physical one              potential; with a fault if others were made by hand
//
// The physical function as a whole is potential, too, so that either it or its virtual functions are given out:
// it is there, and while a claim has it no virtual function can be made. What a kind without functions lists of
// such a card is [source.beside].
type function struct {
	of *match.Physical
	// number is N of virtfnN, or whole.
	number int
	// holder is the one for which it was made; empty for none.
	holder string
	// byHand: it was made by other means.
	byHand bool
	// fault is why it cannot be made, or that it went; nil for none.
	fault *sdk.Health
	// total is how many virtual functions the physical one can have.
	total int64
	// counted: it consumes a counter, as the physical function is a device, too.
	counted bool
}

// whole is the number of the physical function as a whole.
const whole = -1

func (f *function) isPotential() bool { return f != nil && f.holder == "" && !f.byHand }

// list completes the device as it is listed.
func (f *function) list(d *sdk.Device) {
	if f == nil {
		return
	}
	d.Hooks = []sdk.Hook{sdk.HookPrepare, sdk.HookRelease}
	d.Potential, d.MadeFor = f.isPotential(), f.holder
	if f.counted {
		amount := int64(1)
		if f.number == whole {
			amount = f.total
		}
		d.Consumes = []*backendv1.CounterConsumption{{CounterSet: f.set(), Counters: map[string]int64{functionsCounter: amount}}}
	}
}

const functionsCounter = "functions"

// set returns the name of the physical function's counter set, a DNS label.
func (f *function) set() string {
	return "functions-" + strings.NewReplacer(":", "-", ".", "-").Replace(f.of.Name)
}

// CounterSets implements [engine.Divider].
func (vendor) CounterSets(units []*engine.KnownUnit) (sets []*sdk.CounterSet) {
	seen := map[string]bool{}
	for _, u := range units {
		for _, d := range u.Unit.Devices {
			if f := readingIn(d).function; f != nil && f.counted && !seen[f.set()] {
				seen[f.set()] = true
				sets = append(sets, &sdk.CounterSet{Name: f.set(), Counters: map[string]int64{functionsCounter: f.total}})
			}
		}
	}
	return sets
}

// count has the functions consume counters whose physical function is a device, too.
func count(units []engine.Unit) {
	given := map[string]bool{}
	for _, u := range units {
		if f := readingIn(u.Devices[0]).function; f != nil && f.number == whole {
			given[f.of.Name] = true
		}
	}
	for _, u := range units {
		if f := readingIn(u.Devices[0]).function; f != nil {
			f.counted = given[f.of.Name]
		}
	}
}

// functions returns the objects with potential functions, and without those that are there but not made for a
// holder. The map has the functions by the names of their objects. Of a card that cannot be read nothing is listed.
func (s source) functions(found []*match.Object) ([]*match.Object, map[string]*function, []engine.Problem) {
	if s.kind.Functions == nil {
		return found, nil, nil
	}
	all, lost := map[string]*function{}, map[string]bool{}
	physical, wrong := s.finder.Physical()
	var cards []*card
	for _, p := range physical {
		c, err := s.card(p)
		if err != nil {
			wrong = append(wrong, match.Problem{Name: p.Name, Err: err})
		}
		if c != nil {
			cards = append(cards, c)
		}
	}
	var problems []engine.Problem
	for _, p := range wrong {
		lost[p.Name] = true
		problems = append(problems, engine.Problem{Device: p.Name, Lost: true, Err: s.wrong(fmt.Errorf("so are its virtual functions: %w", p.Err))})
	}
	names := map[string]bool{}
	for _, o := range found {
		names[o.Name] = true
	}
	var potential []*match.Object
	for _, c := range cards {
		one, err := s.functionsOf(c, names, all)
		if err != nil {
			problems = append(problems, engine.Problem{Device: c.Name, Err: s.wrong(err)})
		}
		potential = append(potential, one...)
	}
	found = slices.DeleteFunc(found, func(o *match.Object) bool {
		f := all[o.Name]
		return f.isPotential() && f.number != whole || len(lost) > 0 && lost[physicalOf(o)]
	})
	return append(found, potential...), all, problems
}

// physicalOf returns the address of the physical function of a virtual one; that of any other is its own.
func physicalOf(o *match.Object) string {
	if physical, err := o.Link("physfn"); err == nil {
		return physical
	}
	return o.Name
}

// card is what was read of a physical function.
type card struct {
	*match.Physical
	// total is how many virtual functions it can have; there are those that there are, made the holders of those
	// in the record, by number.
	total uint64
	there map[int]string
	made  map[int]string
	// ours: the virtual functions were made for claims.
	ours bool
}

// card reads a physical function; nil for one that can have no virtual functions, or went.
func (s source) card(p *match.Physical) (*card, error) {
	total, err := p.Uint("sriov_totalvfs")
	if errors.Is(err, fs.ErrNotExist) || err == nil && total == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The record is read before and after the functions, as Prepare writes it before it makes them, and Release
	// when they are gone.
	before := s.made.of(p.Name)
	there, err := p.Virtual()
	if err != nil {
		return nil, err
	}
	after := s.made.of(p.Name)
	return &card{p, total, there, after, len(before)+len(after) > 0}, nil
}

// functionsOf adds the functions of a physical one to all, and returns the objects of those that are potential, or
// were made and do not match the kind now: they are gone, or do not have their driver yet.
func (s source) functionsOf(c *card, found map[string]bool, all map[string]*function) (objects []*match.Object, err error) {
	add := func(name string, f function) *function {
		f.of, f.holder, f.total = c.Physical, c.made[f.number], int64(c.total) //nolint:gosec // of 16 bits
		all[name] = &f
		return &f
	}
	add(c.Name, function{number: whole})
	for n, name := range c.there {
		add(name, function{number: n, byHand: !c.ours})
	}
	wanted := s.wanted(c.total)
	numbers := map[int]bool{}
	for n := range wanted {
		numbers[n] = true
	}
	for n := range c.made {
		numbers[n] = n != whole
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		name, isThere := c.there[n]
		if !numbers[n] || isThere && (!c.ours || c.made[n] != "" && found[name]) {
			continue
		}
		o, err := c.Potential(&s.kind.Match.Selector, n, s.driver())
		if err != nil {
			return objects, err
		}
		if o != nil {
			f := add(o.Name, function{number: n})
			f.fault = f.missing(isThere, len(c.there), c.ours)
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// wanted returns how many virtual functions a physical one gets that can have so many.
func (s source) wanted(total uint64) int {
	if s.kind.Functions == nil { // any more
		return 0
	}
	return int(min(uint64(s.kind.Functions.Count), total)) //nolint:gosec // at least 1
}

// driver returns the one to which the kind binds a function; empty for none.
func (s source) driver() (name string) {
	for _, step := range s.kind.Prepare {
		if step.Bind != nil {
			name = step.Bind.Driver
		}
	}
	return name
}

// missing returns the fault of a function that is gone, or that cannot be made; nil for neither. others is how many
// functions of the card are there, ours reports that they were made for claims.
func (f *function) missing(isThere bool, others int, ours bool) *sdk.Health {
	driver, err := f.of.Driver()
	only := fmt.Sprintf("%s has %d virtual functions, and the kernel changes their number only when there are none", f.of.Name, others)
	switch {
	case isThere: // made for a holder, it does not have its driver yet
		return nil
	case f.holder != "":
		return sdk.Fault("function-gone", sdk.RecoverySelf, fmt.Sprintf(
			"virtual function %d of %s was made for a claim, and was removed since: delete the pod that has it; was the driver of %s loaded again?", f.number, f.of.Name, f.of.Name))
	case others > 0 && ours:
		return sdk.Fault("too-few-functions", sdk.RecoverySelf, fmt.Sprintf(
			"%s: virtual function %d can be made when the claims for the others have ended", only, f.number))
	case others > 0:
		return sdk.Fault("too-few-functions", sdk.RecoverySelf, fmt.Sprintf(
			"%s: when the others, which were made by hand, are not in use, write 0 to sriov_numvfs of %s, and virtual function %d can be made", only, f.of.Name, f.number))
	case err == nil && driver == "":
		return sdk.Fault("no-driver", sdk.RecoverySelf, fmt.Sprintf("%s has no driver, and only that makes virtual functions: bind %s to the driver of the card", f.of.Name, f.of.Name))
	}
	return nil
}

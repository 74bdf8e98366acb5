package device

import (
	"fmt"
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
//	no          it                                    made for the holder, with a fault
//	yes         none of the physical one              an ordinary device: made by hand
//	no          none of the physical one              potential; with a fault if others were made by hand
//
// The physical function as a whole is potential, too, so that either it or its virtual functions are given out:
// it is there, and while a claim has it no virtual function can be made.
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
// holder. The map has the functions by the names of their objects.
func (s source) functions(found []*match.Object) ([]*match.Object, map[string]*function, []engine.Problem) {
	if s.kind.Functions == nil {
		return found, nil, nil
	}
	all := map[string]*function{}
	physical, err := s.finder.Physical()
	if err != nil {
		return found, nil, []engine.Problem{{Err: s.wrong(err)}}
	}
	var potential []*match.Object
	var problems []engine.Problem
	for _, p := range physical {
		one, err := s.functionsOf(p, all)
		if err != nil {
			problems = append(problems, engine.Problem{Device: p.Name, Err: s.wrong(err)})
		}
		potential = append(potential, one...)
	}
	found = slices.DeleteFunc(found, func(o *match.Object) bool {
		f := all[o.Name]
		return f.isPotential() && f.number != whole
	})
	return append(found, potential...), all, problems
}

// functionsOf adds the functions of a physical one to all, and returns the objects of those that are potential, or
// were made and are gone.
func (s source) functionsOf(p *match.Physical, all map[string]*function) (objects []*match.Object, err error) {
	total, err := p.Uint("sriov_totalvfs")
	if err != nil || total == 0 {
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
	ours := len(before)+len(after) > 0
	add := func(name string, f function) *function {
		f.of, f.holder, f.total = p, after[f.number], int64(total) //nolint:gosec // of 16 bits
		all[name] = &f
		return &f
	}
	add(p.Name, function{number: whole})
	wanted := s.wanted(total)
	numbers := map[int]bool{}
	for n := range wanted {
		numbers[n] = true
	}
	for n := range there {
		numbers[n] = true
	}
	for n := range after {
		numbers[n] = n != whole
	}
	for _, n := range slices.Sorted(maps.Keys(numbers)) {
		name, isThere := there[n]
		if isThere {
			add(name, function{number: n, byHand: !ours})
		}
		if !numbers[n] || isThere && (!ours || after[n] != "" || n >= wanted) {
			continue
		}
		o, err := p.Potential(&s.kind.Match.Selector, n, s.driver())
		if err != nil {
			return objects, err
		}
		if o != nil {
			f := add(o.Name, function{number: n})
			f.fault = f.missing(isThere, len(there), ours)
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// wanted returns how many virtual functions a physical one gets that can have so many.
func (s source) wanted(total uint64) int {
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

// missing returns why a function that is listed without being there cannot be made, or that it went; nil
// for neither. There are so many others.
func (f *function) missing(isThere bool, others int, ours bool) *sdk.Health {
	driver, err := f.of.Driver()
	only := fmt.Sprintf("%s has %d virtual functions, and the kernel changes their number only when there are none", f.of.Name, others)
	switch {
	case f.holder != "":
		return sdk.Fault("function-gone", sdk.RecoverySelf, fmt.Sprintf(
			"virtual function %d of %s was made for a claim, and was removed since: delete the pod that has it; was the driver of %s loaded again?", f.number, f.of.Name, f.of.Name))
	case isThere:
		return nil
	case others > 0 && ours:
		return sdk.Fault("too-few-functions", sdk.RecoverySelf, only+": it can be made when the claims for those have ended")
	case others > 0:
		return sdk.Fault("too-few-functions", sdk.RecoverySelf, only+", and these were made by hand: write 0 to its sriov_numvfs when they are not in use, and it can be made")
	case err == nil && driver == "":
		return sdk.Fault("no-driver", sdk.RecoverySelf, fmt.Sprintf("%s has no driver, which would make its virtual functions: bind it to the driver of its card", f.of.Name))
	}
	return nil
}

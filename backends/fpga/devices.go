package fpga

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// maxAttributes is how many attributes a device may have, maxName how many bytes a name
// of a resource after the slash, or an attribute's text.
const maxAttributes, maxName, maxText = 32, 63, 64

// List implements [engine.Vendor].
func (v vendor) List(d *engine.KnownDevice) (*sdk.Device, []string) {
	is, lost, p := regionIn(d.Stable), memoryOf(d).lost, memoryOf(d).program
	var problems []string
	switch {
	case p != nil && p.failed != nil && !d.Busy():
		problems = append(problems, fmt.Sprintf("%s: programming %s failed, and until it is programmed again its content is not known, whatever ID it shows: %v",
			is.ID, p.name, p.failed))
	case lost != nil && v.cfg.classOf(is) == classAF && v.cfg.programs(is):
		problems = append(problems, fmt.Sprintf("%s: the accelerator function %s is no longer loaded, so the device is in no resource by the name %s: "+
			"containers that ask for a file can use it; for what happened to the function see the kernel's log", is.ID, lost.Function, lost.Loaded))
	}
	if lost != nil && !v.cfg.programs(is) { // it keeps its place among those that have the function
		is.Function, is.Loaded = lost.Function, lost.Loaded
	}
	card := cardIn(d.Unit.Unit)
	device := &sdk.Device{Class: v.cfg.classOf(is)}
	var more []string
	device.Attributes, more = v.attributes(d.Unit, is)
	if card.ID != is.ID {
		device.ParentId = card.ID
	}
	if v.cfg.hooked() {
		device.Hooks = []backendv1.Hook{sdk.HookPrepare}
	}
	return device, append(problems, more...)
}

// attributes returns what selectors can ask for, and problems with them. What is not known is
// missing. Of too many the last are left out: the region's own come before the card's, each
// in the order of their names.
func (v vendor) attributes(u *engine.KnownUnit, r driver.Region) (map[string]*sdk.Attribute, []string) {
	card := cardIn(u.Unit)
	of := map[string]*sdk.Attribute{
		"model": sdk.String(card.Model), "driver": sdk.String(u.Driver().Name()),
		"region": sdk.Int(int64(r.Number)), "virtual": sdk.Bool(card.Virtual), "programmable": sdk.Bool(v.cfg.programs(r)),
		"board": sdk.String(card.Board),
	}
	var problems []string
	name := "regionName"
	if r.Kind == driver.Platform {
		name = "platformName"
	}
	for attribute, value := range map[string]string{name: r.Name, "functionName": r.Loaded} {
		switch {
		case value == "":
		case validName(value):
			of[attribute] = sdk.String(value)
		default:
			problems = append(problems, fmt.Sprintf("%s: its %s %q cannot be the name of a resource, and is left out", r.ID, attribute, value))
		}
	}
	for attribute, value := range map[string]string{"interfaceID": r.Interface, "functionID": r.Function, "serial": card.Serial} {
		if value != "" && len(value) <= maxText {
			of[attribute] = sdk.String(value)
		}
	}
	left := 0
	for _, more := range []map[string]*sdk.Attribute{r.Attributes, card.Attributes} {
		for _, attribute := range slices.Sorted(maps.Keys(more)) {
			if of[attribute] != nil {
				continue
			}
			if len(of) == maxAttributes {
				left++
				continue
			}
			of[attribute] = more[attribute]
		}
	}
	if left > 0 {
		problems = append(problems, fmt.Sprintf("%s: %d attributes are left out: a device may have %d", r.ID, left, maxAttributes))
	}
	slices.Sort(problems)
	return of, problems
}

// validName reports whether a text is valid after the slash of a resource's name.
func validName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= maxName && strings.Trim(name, letters+"-_.") == "" &&
		strings.Trim(name[:1]+name[len(name)-1:], letters) == ""
}

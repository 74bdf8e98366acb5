package fpga

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// The classes of devices.
const (
	// classAF is a port of Intel's that is listed by the accelerator function in it.
	classAF = "af"
	// classRegion is a region that is listed by the interface that bitstreams must fit.
	classRegion = "region"
	// classCard is a whole card with a shell.
	classCard = "card"
)

// maxAttributes is how many attributes a device may have, maxName how many bytes a name
// of a resource after the slash, or an attribute's text.
const maxAttributes, maxName, maxText = 32, 63, 64

// classOf is the class of a region. A port that does not say what is loaded cannot be
// listed by that.
func (s *settings) classOf(r driver.Region) string {
	switch {
	case r.Kind == driver.Platform:
		return classCard
	case r.Kind == driver.Port && s.Mode == modeAF && r.State != driver.Untold:
		return classAF
	}
	return classRegion
}

// listing are all devices in a stable order, and what is unclear about them.
func (l *loop) listing() (devices []*sdk.Device, problems []string) {
	for _, known := range l.roster.sorted() {
		if wrong := known.sensing.implausible(known.card); wrong != "" {
			problems = append(problems, wrong)
		}
		for _, r := range known.sorted() {
			device, doubts := l.device(r)
			devices, problems = append(devices, device), append(append(problems, l.doubts(r)...), doubts...)
		}
	}
	return devices, problems
}

// device is a region.
func (l *loop) device(r *region) (*sdk.Device, []string) {
	card, is := r.of.card, l.identity(r)
	d := &sdk.Device{Id: is.ID, Class: l.cfg.classOf(is), Health: r.said}
	var doubts []string
	d.Attributes, doubts = l.attributes(card, is)
	if card.ID != is.ID {
		d.ParentId = card.ID
	}
	if is.Kind == driver.Platform {
		d.ResetGroup = card.Board // a shell is reset with all that is behind it
	}
	if card.PCI != nil {
		d.PciBusId = card.PCI.Address.String()
		if card.PCI.NUMANode >= 0 {
			d.NumaNodes = []uint32{uint32(card.PCI.NUMANode)}
		}
	}
	if l.cfg.hooked() {
		d.Hooks = []backendv1.Hook{sdk.HookPrepare}
	}
	// What is away or in reset may have no nodes either: that is not what is wrong.
	if d.Edits = r.given.edits; r.given.err != nil && r.of.absent == nil && r.missing == nil && r.busy.IsZero() {
		d.Health = sdk.Graver(sdk.Fault("node-missing", sdk.RecoverySelf, r.given.err.Error()), r.said)
	}
	return d, doubts
}

// identity is what a region is listed as: one that lost its function, and cannot be
// given another from here, keeps its place among those that have it.
func (l *loop) identity(r *region) driver.Region {
	is := r.known
	if r.lost != nil && !l.cfg.programs(is) {
		is.Function, is.Loaded = r.lost.Function, r.lost.Loaded
	}
	return is
}

// attributes are what selectors can ask for, and what is wrong with them. What is not
// known is missing. Of a driver that says too much, what comes last is left out: the
// region's own come before the card's, each in the order of their names.
func (l *loop) attributes(card driver.Card, r driver.Region) (map[string]*sdk.Attribute, []string) {
	of := map[string]*sdk.Attribute{
		"model": sdk.String(card.Model), "driver": sdk.String(l.roster.cards[card.ID].by.driver.Name()),
		"region": sdk.Int(int64(r.Number)), "virtual": sdk.Bool(card.Virtual), "programmable": sdk.Bool(l.cfg.programs(r)),
		"board": sdk.String(card.Board),
	}
	var doubts []string
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
			doubts = append(doubts, fmt.Sprintf("%s: its %s %q can be no name of a resource, and is left out", r.ID, attribute, value))
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
		doubts = append(doubts, fmt.Sprintf("%s: %d attributes are left out: a device may have %d", r.ID, left, maxAttributes))
	}
	slices.Sort(doubts)
	return of, doubts
}

// validName reports whether a text can stand after the slash of a resource's name.
func validName(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return name != "" && len(name) <= maxName && strings.Trim(name, letters+"-_.") == "" &&
		strings.Trim(name[:1]+name[len(name)-1:], letters) == ""
}

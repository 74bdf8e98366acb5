package fpga

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
	"github.com/accelmux/accelmux/backends/uevent"
)

// source is a driver as the engine uses it: a unit is a card, a device a region.
type source struct {
	driver driver.Driver
	cfg    *config
	// first: it reports cards without a driver for all drivers.
	first bool
}

// Name implements [engine.Driver].
func (s source) Name() string { return s.driver.Name() }

// Scan implements [engine.Driver].
func (s source) Scan(known []engine.Unit) engine.Scan {
	reading := s.driver.Read()
	found := engine.Scan{Problems: reading.Problems, Unstable: reading.Unstable, Unloaded: reading.Unloaded}
	functions := s.functions(reading.Cards, &found)
	for _, card := range reading.Cards {
		unit := engine.Unit{ID: card.ID, Board: card.Board, PCI: card.PCI, Dir: card.Dir, Vendor: card}
		if isEmptied(card, known) {
			found.Problems = append(found.Problems, engine.Problem{Device: nameOf(card), Lost: true, Err: errors.New(
				"the driver has nothing of it any more, neither regions nor what manages them: see the kernel's log, or bind the driver again")})
			continue
		}
		for _, r := range card.Regions {
			for _, f := range functions {
				if f.Interface == r.Interface && s.cfg.divides(r) {
					r.Fitting = append(r.Fitting, f)
				}
			}
			unit.Devices = append(unit.Devices, s.device(card, r))
		}
		found.Units = append(found.Units, unit)
	}
	if s.first {
		at := map[pci.Address]bool{}
		for _, unit := range known {
			if unit.PCI != nil {
				at[unit.PCI.Address] = true
			}
		}
		problems, away := unbound(s.cfg, at)
		found.Problems, found.Away = append(found.Problems, problems...), away
	}
	return found
}

// isEmptied reports whether the driver still has a known card, but nothing of it: it is broken. A card of several
// functions may have such ones from the beginning.
func isEmptied(card driver.Card, known []engine.Unit) bool {
	hasNothing := func(c driver.Card) bool { return len(c.Regions) == 0 && (c.Virtual || len(c.Management) == 0) }
	return hasNothing(card) && slices.ContainsFunc(known, func(u engine.Unit) bool { return u.ID == card.ID && !hasNothing(cardIn(u)) })
}

// nameOf is the name of a card in problems; see [engine.Problem].
func nameOf(card driver.Card) string {
	if card.PCI != nil {
		return card.PCI.Address.String()
	}
	return filepath.Base(card.Dir)
}

// functions returns those of the bitstreams on the node, if a region can have one. Files that cannot be read are
// problems; of the directory [Backend.checks] reports that.
func (s source) functions(cards []driver.Card, found *engine.Scan) []bitstream.Function {
	if !slices.ContainsFunc(cards, func(c driver.Card) bool { return slices.ContainsFunc(c.Regions, s.cfg.divides) }) {
		return nil
	}
	all, problems, err := bitstream.Functions(s.cfg.Bitstreams)
	if err != nil {
		return nil
	}
	for _, err := range problems {
		found.Problems = append(found.Problems, engine.Problem{Err: err})
	}
	return all
}

func (s source) device(card driver.Card, r driver.Region) engine.Device {
	d := engine.Device{
		ID: r.ID, Number: r.Number, Name: fmt.Sprintf("region %d of the card %s", r.Number, card.ID),
		Busy: r.State == driver.Busy, Vendor: r,
	}
	if card.ID == r.ID {
		d.Name = card.ID
	}
	if r.State != driver.Unloaded {
		d.Content = string(r.State) + r.Function
	}
	if r.Kind == driver.Platform {
		d.ResetGroup = card.Board // a shell is reset with all that is behind it
	}
	d.Edits, d.EditsErr = edits(s.cfg, card, r)
	return d
}

// Reset implements [engine.Driver].
func (s source) Reset(ctx context.Context, targets []engine.Target) (string, error) {
	var all []string
	for _, t := range targets {
		done, err := s.driver.Reset(ctx, cardIn(t.Unit), regionIn(t.Device))
		if err != nil {
			return "", err
		}
		all = append(all, done)
	}
	return strings.Join(all, "; "), nil
}

// Sense implements [engine.Senser]. The metrics of one name differ in the label sensor.
func (s source) Sense(u engine.Unit, device string) engine.Senses {
	senses := s.driver.Sense(cardIn(u))
	all := engine.Senses{Vendor: senses}
	for _, sensor := range senses.Sensors {
		m := sdk.Gauge(device, sensor.Metric, sensor.Value)
		m.Labels = map[string]string{"sensor": sensor.Sensor}
		all.Metrics = append(all.Metrics, m)
	}
	return all
}

// edits returns what a container gets with a region. One without nodes, as many have on a
// system on a chip, is known to the container by variables alone.
func edits(cfg *config, card driver.Card, region driver.Region) (*sdk.Edits, error) {
	nodes := make([]devnode.Node, 0, len(region.Nodes)+len(card.Management))
	for _, path := range region.Nodes {
		nodes = append(nodes, devnode.Node{Path: path, Number: numberOf(cfg.host.Sysfs, region.Dir, path)})
	}
	if cfg.managed(card, region) {
		for _, path := range card.Management {
			nodes = append(nodes, devnode.Node{Path: path})
		}
	}
	if len(nodes) == 0 && len(region.Env) == 0 {
		return nil, errors.New("the kernel has no device node by which a container could use it")
	}
	edits, err := cfg.Edits.Edits(cfg.host.Devfs, nodes...)
	if err != nil {
		return nil, err
	}
	for name, value := range region.Env {
		sdk.JoinedEnv(edits, name, value, ",") // of all that a container gets
		if len(nodes) == 0 {                   // a CDI device cannot have a joined variable
			edits.Env[variable(name, value)] = value
		}
	}
	return edits, nil
}

// variable returns a variable of one region's own, such as FPGA_REGION_REGION0.
func variable(name, value string) string {
	return name + "_" + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, value)
}

// numberOf returns the number of a region's node where the kernel has it beside the region: the
// directory has the node's name, and a file dev. Otherwise it is nil.
func numberOf(root, dir, node string) *devnode.Number {
	if filepath.Base(dir) != filepath.Base(node) {
		return nil
	}
	text, err := sysfs.Text(filepath.Join(root, dir, "dev"))
	var n devnode.Number
	if _, wrong := fmt.Sscanf(strings.TrimRight(text, "\x00"), "%d:%d", &n.Major, &n.Minor); err != nil || wrong != nil {
		return nil
	}
	return &n
}

// concerns reports whether an event of the kernel may be about an FPGA or a driver of
// one. The classes of Linux's FPGA subsystem are fpga_region, fpga_manager and
// fpga_bridge; the devices of DFL are on a bus of their own.
func concerns(e uevent.Event) bool {
	switch e.Subsystem {
	case "module":
		for _, name := range []string{"dfl", "fpga", "intel_fpga", "xocl", "xclmgmt", "ama_transcoder", "amdxdna", "of_fpga", "zynq"} {
			if strings.HasPrefix(e.DevPath, "/module/"+name) {
				return true
			}
		}
	case "pci":
		class, err := strconv.ParseUint(e.Properties["PCI_CLASS"], 16, 32)
		if err == nil && class>>16 == pci.ProcessingAccelerator {
			return true
		}
		switch vendor, _, _ := strings.Cut(e.Properties["PCI_ID"], ":"); vendor {
		case "10EE", "13FE", "1D0F", "3475":
			return true
		}
	case "misc":
		return strings.Contains(e.DevPath, "/ama_transcoder")
	case "drm":
		return e.Action != uevent.Change // which comes with every monitor
	case "fpga", "fpga_region", "fpga_manager", "fpga_bridge", "dfl":
		return true
	}
	return false
}

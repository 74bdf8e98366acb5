package fpga

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/backends/sysfs"
)

// look is what one reading of a driver found, by which settings.
type look struct {
	driver.Reading
	cfg   *config
	began time.Time
	// number counts the looks of the reader, from 1.
	number uint64
	// given is what containers get with each region, by ID.
	given map[string]given
	// places say what is where cards are known of that were not found, by their IDs.
	places map[string]place
}

// place is where a card is known of.
type place struct {
	// there says that something is there still.
	there bool
	// pci is what the bus says; nil for a card that is not on PCI, or does not answer.
	pci *pci.Device
	err error // why it does not answer
}

// given is what a container gets, or why nothing.
type given struct {
	edits *sdk.Edits
	err   error
}

// gather reads a driver's cards; known are the cards of earlier scans. It takes as long as
// the driver takes.
func gather(cfg *config, d driver.Driver, known []driver.Card) look {
	found := look{cfg: cfg, began: time.Now(), given: map[string]given{}, places: map[string]place{}}
	found.Reading = d.Read()
	present := map[string]bool{}
	for _, card := range found.Cards {
		present[card.ID] = true
		for _, region := range card.Regions {
			found.given[region.ID] = giving(cfg, card, region)
		}
	}
	for _, card := range known {
		if !present[card.ID] {
			found.places[card.ID] = placeOf(cfg.host.Sysfs, card)
		}
	}
	return found
}

// placeOf looks where a card was.
func placeOf(root string, card driver.Card) place {
	if card.PCI == nil {
		_, err := os.Stat(filepath.Join(root, card.Dir))
		return place{there: !errors.Is(err, fs.ErrNotExist)}
	}
	device, err := pci.ReadDevice(root, card.PCI.Address)
	if err == nil {
		return place{there: true, pci: &device}
	}
	// It is unplugged only if all of it is gone.
	_, gone := os.Stat(filepath.Join(root, "bus", "pci", "devices", card.PCI.Address.String()))
	return place{there: !errors.Is(gone, fs.ErrNotExist), err: err}
}

// giving is what a container gets with a region. One without nodes, as many have on a
// system on a chip, is known to it by variables alone.
func giving(cfg *config, card driver.Card, region driver.Region) given {
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
		return given{err: errors.New("the kernel has no device node by which a container could use it")}
	}
	edits, err := cfg.Edits.Edits(cfg.host.Devfs, nodes...)
	if err != nil {
		return given{err: err}
	}
	for name, value := range region.Env {
		sdk.JoinedEnv(edits, name, value, ",") // of all that a container gets
		if len(nodes) == 0 {                   // CDI carries no variable that is joined
			edits.Env[variable(name, value)] = value
		}
	}
	return given{edits: edits}
}

// variable is a variable of one region's own, such as FPGA_REGION_REGION0.
func variable(name, value string) string {
	return name + "_" + strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, value)
}

// managed reports whether a container gets the nodes that manage the card. In the mode
// for developers that is so only for the function's own: through those of the physical
// function a virtual one would program all others.
func (s *settings) managed(card driver.Card, region driver.Region) bool {
	return s.Management || s.Mode == modeDevel && region.Kind == driver.Port && !card.Virtual
}

// numberOf is the number of a region's node where the kernel says it beside the region:
// the directory has the node's name, and a file dev. Else it is nil.
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

// identity is what two looks that saw the same machine have in common.
func (f look) identity() string {
	var text strings.Builder
	for _, card := range f.Cards {
		fmt.Fprint(&text, card.ID)
		for _, region := range card.Regions {
			fmt.Fprint(&text, " ", region.ID, "=", region.State, region.Function)
		}
		text.WriteByte('\n')
	}
	for _, sentence := range f.sentences() {
		text.WriteString(sentence)
		text.WriteByte('\n')
	}
	return text.String()
}

// sentences are what an operator must know of it.
func (f look) sentences() []string {
	var all []string
	for _, p := range f.Problems {
		if p.Lost {
			all = append(all, fmt.Sprintf("%s is left out: %v", p.Device, p.Err))
		} else {
			all = append(all, fmt.Sprintf("%s: %v", p.Device, p.Err))
		}
	}
	return all
}

// reason is why something of a card is left out; empty if the driver says nothing of
// that. What a problem names is the card's address, or begins with it, or is the name of
// the card's directory.
func (f look) reason(card driver.Card) string {
	for _, p := range f.Problems {
		name, _, _ := strings.Cut(p.Device, " ")
		if p.Lost && (card.PCI != nil && name == card.PCI.Address.String() || card.PCI == nil && name == filepath.Base(card.Dir)) {
			return p.Err.Error()
		}
	}
	return ""
}

package alveo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
)

// amazon is the PCI vendor of cards on AWS, whose shells' times have no meaning: XRT does
// not compare them (verify_timestamp in XRT's subdev/feature_rom.c).
const amazon = 0x1d0f

// Fits reports whether a file is for the shell of a card as it is now, by what XRT's driver
// compares: the interfaces that the file needs must all be the shell's; a file without
// them must have the shell's name and, for shells of one partition, its time.
func (d *Driver) Fits(c driver.Card, _ driver.Region, f *bitstream.File) error {
	card, err := d.again(c)
	if err != nil {
		return err
	}
	if err := card.fits(f); err != nil {
		return fmt.Errorf("bitstream %s is not for card %s: %w", f.Path, c.ID, err)
	}
	return nil
}

func (c Card) fits(f *bitstream.File) error {
	shell := c.Shell
	switch {
	case f.Kind != bitstream.Xclbin || f.Container == nil:
		return fmt.Errorf("it is %s, and an xclbin was expected", f.Kind)
	case c.User == nil:
		return errNoCard
	case shell.VBNV == "":
		return fmt.Errorf("what it is for cannot be compared: the card does not report its shell, as in reset (%s)", c.Offline())
	case len(f.Container.Interfaces) > 0:
		return c.interfaces(f.Container.Interfaces)
	case f.VBNV == "":
		return fmt.Errorf("it does not name the platform that it was built for, and the card has %s", shell.VBNV)
	case plain(f.VBNV) != plain(shell.VBNV):
		return fmt.Errorf("it was built for the platform %s, and the card has %s", f.VBNV, shell.VBNV)
	case len(shell.Interfaces) == 0 && c.User.PCI.Vendor != amazon && f.Container.ROMTime != shell.Timestamp:
		return fmt.Errorf("it was built for %s of time %d, and that of the card has %d: build it for the shell that the card has, or flash the other one",
			f.VBNV, f.Container.ROMTime, shell.Timestamp)
	}
	return nil
}

// interfaces returns an error for an interface that a file needs and the shell lacks. A shell of
// two partitions reports its interfaces in both functions.
func (c Card) interfaces(needed []bitstream.UUID) error {
	has := slices.Clone(c.Shell.Interfaces)
	if c.Management != nil {
		has = append(has, c.Management.Shell.Interfaces...)
	}
	for _, id := range needed {
		if !slices.Contains(has, id) {
			if len(has) == 0 {
				return fmt.Errorf("it needs the interface %s, and the shell %s has none", id, c.Shell.VBNV)
			}
			slices.SortFunc(has, func(a, b bitstream.UUID) int { return strings.Compare(a.Hex(), b.Hex()) })
			return fmt.Errorf("it needs the interface %s, and the shell %s has %s", id, c.Shell.VBNV, join32(slices.Compact(has)))
		}
	}
	return nil
}

// plain returns a platform's name as the driver writes it: files may have colons and dots
// where it has underscores.
func plain(vbnv string) string { return strings.NewReplacer(":", "_", ".", "_").Replace(vbnv) }

// Holds reports whether the file's xclbin is what is loaded, by its UUID.
func (d *Driver) Holds(r driver.Region, f *bitstream.File) bool {
	return r.State == driver.Loaded && f.Kind == bitstream.Xclbin && !f.UUID.IsZero() && r.Function == f.UUID.String()
}

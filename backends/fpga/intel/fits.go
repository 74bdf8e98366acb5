package intel

import (
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/ioctl"
)

// Fits returns an error unless a file is for a port: a .gbs for its interface. Only the card
// checks, when it is programmed, whether the file is for the static part of the board, and
// whether its signature is valid.
func (d *Driver) Fits(c driver.Card, r driver.Region, f *bitstream.File) error {
	if err := fits(c, r, f); err != nil {
		return fmt.Errorf("bitstream %s does not fit port %d of the card %s (%s): %w", f.Path, r.Number, c.ID, c.Model, err)
	}
	return nil
}

func fits(c driver.Card, r driver.Region, f *bitstream.File) error {
	switch {
	case f.Kind == bitstream.Xclbin:
		return errors.New("it is an .xclbin for a card of AMD's: a .gbs is needed")
	case f.Kind != bitstream.GBS:
		return errors.New("it does not name what it is for, and the card might accept it and not work: a .gbs is needed, as OPAE's packager makes it from the raw file")
	case r.Interface == "":
		return errors.New("the kernel does not report the port's interface ID, so it is not known what fits")
	case f.InterfaceID.Hex() != r.Interface:
		return fmt.Errorf("it is for the interface %s, and the port has %s: take the file that was made for this card and its firmware", f.InterfaceID.Hex(), r.Interface)
	case len(f.Accelerators) == 0:
		return errors.New("it names no accelerator function")
	case f.Payload.Size > ioctl.MaxPayload:
		return fmt.Errorf("its bitstream has %d bytes, and the driver takes %d at most", f.Payload.Size, uint32(ioctl.MaxPayload))
	case len(c.Management) == 0:
		return errors.New("there is no management engine by which the port is programmed, as in a virtual machine: program it from the host")
	case !r.Programmable:
		return errors.New("the card's management engine does not have this port")
	}
	return nil
}

// Holds reports whether a port has the content of the file.
func (d *Driver) Holds(r driver.Region, f *bitstream.File) bool {
	return f.Kind == bitstream.GBS && r.State == driver.Loaded && r.Interface != "" && r.Interface == f.InterfaceID.Hex() &&
		r.Function == accelerator(f)
}

// accelerator returns what the port's afu_id is once the file is loaded; empty if the file
// does not report.
func accelerator(f *bitstream.File) string {
	if len(f.Accelerators) == 0 {
		return ""
	}
	return f.Accelerators[0].ID.Hex()
}

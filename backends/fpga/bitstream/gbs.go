package bitstream

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// gbsMagic and gbsVersion are the two numbers of 64 bits that a .gbs begins
	// with, in the order of bytes in which they are written: 0x414750466e6f6558
	// and 0x31303076534247b7 in OPAE's and the kernel driver's sources.
	gbsMagic   = "XeonFPGA\xb7GBSv"
	gbsVersion = "001"
	// gbsHeader is those, and the metadata's length.
	gbsHeader = 20
	// metadataLimit is how much metadata is read. OPAE's packager writes less than
	// 2 KiB.
	metadataLimit = 64 << 10
)

// Green is what a .gbs (a "green bitstream") says besides the IDs.
type Green struct {
	// Version is that of the metadata, or the packager's; nothing depends on it.
	Version float64
	// Platform is the name of the platform, if there is one.
	Platform string
	// PowerW is what the accelerator function is said to draw, in watts; 0 if that
	// is not told.
	PowerW float64
	// ClockHighMHz and ClockLowMHz are what the user clocks are to be set to after
	// programming; 0 if the file leaves them alone.
	ClockHighMHz, ClockLowMHz float64
	// Signed says that the payload begins with a signature, as Intel's PACSign puts
	// it between the metadata and the bitstream. It goes to the card, which checks it.
	Signed bool
}

// Accelerator is an accelerator function in a .gbs.
type Accelerator struct {
	// ID is what the port's afu_id is once it is programmed.
	ID   UUID
	Name string
	// Contexts is how many users it can have at once; 0 if that is not told.
	Contexts int
}

// readGBS reads a file that begins as a .gbs.
func (f *File) readGBS() error {
	f.Kind, f.Green = GBS, &Green{}
	head, err := f.read("header", Span{0, gbsHeader})
	if err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(head[16:]))
	switch {
	case length == 0:
		return errors.New("it has no metadata: JSON with the interface's and the accelerator's ID was expected")
	case length > metadataLimit:
		return fmt.Errorf("its metadata is said to have %d bytes, and %d are the most that is read: the header is damaged", length, metadataLimit)
	}
	if f.Metadata, err = f.read("metadata", Span{gbsHeader, length}); err != nil {
		return err
	}
	f.Payload = Span{gbsHeader + length, f.Size - gbsHeader - length}
	if f.Payload.Size == 0 {
		return errors.New("it ends after its metadata: the bitstream is missing")
	}
	if err := f.readMetadata(); err != nil {
		return fmt.Errorf("its metadata: %w", err)
	}
	return f.readSignature()
}

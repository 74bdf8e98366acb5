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
		return fmt.Errorf("by its header its metadata has %d bytes, and %d are the most that is read: the header is damaged", length, metadataLimit)
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

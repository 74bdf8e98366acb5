package bitstream

import (
	"fmt"
	"slices"
	"time"
)

// SectionKind is what a section of an .xclbin has, an axlf_section_kind.
type SectionKind uint32

var sectionKinds = map[SectionKind]string{
	Bitstream: "BITSTREAM", EmbeddedMetadata: "EMBEDDED_METADATA", BuildMetadata: "BUILD_METADATA",
	PDI: "PDI", PartialPDI: "BITSTREAM_PARTIAL_PDI", PartitionMetadata: "PARTITION_METADATA",
}

// String returns the kind's name in xclbin.h, or its number.
func (k SectionKind) String() string {
	if name, ok := sectionKinds[k]; ok {
		return name
	}
	return fmt.Sprintf("of kind %d", uint32(k))
}

// Section is a part of an .xclbin, within the file, which shares no byte with the
// header or another section.
type Section struct {
	Kind SectionKind
	Name string
	Span
}

// Container is what an .xclbin has besides the IDs.
type Container struct {
	// Version is that of the tools, as "2.16.204".
	Version string
	// Created is when it was built.
	Created time.Time
	// ROMTime is the timestamp of the shell's feature ROM, in seconds since 1970; 0
	// for shells that interfaces identify.
	ROMTime uint64
	// HeaderID is the header's field for the shell's ID: its feature ROM in older files, its
	// interface in newer ones. It is not reliable alone.
	HeaderID UUID
	// Mode is the XCLBIN_MODE: flat (0), or a reconfigurable partition (1).
	Mode uint16
	// Interfaces are the IDs that the shell must have, all of them, as XRT's driver
	// checks them. Empty in files for shells without interfaces.
	Interfaces []UUID
	// Bitstream is what programs the FPGA: a BITSTREAM, or a PDI for Versal cards.
	// It is empty in a file that only describes what a shell has already.
	Bitstream Span
	// Sections are all sections, in the order of the file's table.
	Sections []Section
}

// of returns the sections of a kind.
func (c *Container) of(kind SectionKind) []Section {
	return slices.DeleteFunc(slices.Clone(c.Sections), func(s Section) bool { return s.Kind != kind })
}

// Kinds of sections that describe what a file is for, or go to the card.
const (
	Bitstream         SectionKind = 0
	EmbeddedMetadata  SectionKind = 2  // XML: platform, kernels, their arguments
	BuildMetadata     SectionKind = 14 // JSON: how it was built
	PDI               SectionKind = 18 // a Versal card's whole image
	PartialPDI        SectionKind = 19 // a Versal card's bitstream
	PartitionMetadata SectionKind = 20 // a device tree: the interfaces it needs
)

// Span is a part of a file, in bytes.
type Span struct {
	Offset, Size int64
}

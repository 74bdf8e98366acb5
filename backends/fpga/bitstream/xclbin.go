package bitstream

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// The layout of struct axlf, little-endian, from XRT's xclbin.h: magic and
// signature (304 bytes), struct axlf_header (152), then the section headers.
const (
	xclbinMagic   = "xclbin"
	axlfSize      = 456
	sectionSize   = 40
	atLength      = 304
	atTime        = 312
	atROMTime     = 320
	atPatch       = 328
	atMajor       = 330
	atMinor       = 331
	atMode        = 332
	atInterface   = 336
	atVBNV        = 352
	atUUID        = 416
	atSections    = 448
	vbnvSize      = 64
	inSectionName = 4
	inSectionAt   = 24
	inSectionSize = 32
	nameSize      = 16
)

const (
	// maxSections is how many sections are read, far more than XRT has kinds of.
	maxSections = 1024
	// partitionLimit bounds a device tree of some nodes.
	partitionLimit = 1 << 20
)

// modes that run in a simulator, by the names that Vitis has for the targets.
var emulations = map[uint16]string{4: "hw_emu", 5: "sw_emu", 6: "hw_emu"}

const maxMode = 6

// readXclbin reads a file that begins as an .xclbin.
func (f *File) readXclbin() error {
	c := &Container{}
	f.Kind, f.Container = Xclbin, c
	head, err := f.read("header", Span{0, axlfSize})
	if err != nil {
		return err
	}
	le := binary.LittleEndian
	// The driver gets as many bytes as the header has; it never gets bytes after that (there
	// should be none).
	length := le.Uint64(head[atLength:])
	switch {
	case length > uint64(f.Size):
		return fmt.Errorf("it is cut off: it has %d bytes, and by its header %d", f.Size, length)
	case length < axlfSize:
		return fmt.Errorf("by its header it has %d bytes, and the header alone has %d: it is damaged", length, axlfSize)
	}
	f.Payload = Span{0, int64(length)}
	c.Mode = le.Uint16(head[atMode:])
	if target, ok := emulations[c.Mode]; ok {
		return fmt.Errorf("it was built for emulation (%s): the target hw was expected", target)
	}
	if c.Mode > maxMode {
		return fmt.Errorf("its mode is %d, and 0 to %d are known: it is damaged, or newer than this program", c.Mode, maxMode)
	}
	c.Version = fmt.Sprintf("%d.%d.%d", head[atMajor], head[atMinor], le.Uint16(head[atPatch:]))
	// A later time is invalid, and would not fit into 64 bits of a Time.
	c.Created = time.Unix(int64(min(le.Uint64(head[atTime:]), 1<<40)), 0).UTC()
	c.ROMTime = le.Uint64(head[atROMTime:])
	c.HeaderID = UUID(head[atInterface : atInterface+16])
	f.UUID = UUID(head[atUUID : atUUID+16])
	if f.VBNV, err = label(head[atVBNV : atVBNV+vbnvSize]); err != nil {
		return fmt.Errorf("the name of its platform %w", err)
	}
	if err := f.readSections(le.Uint32(head[atSections:])); err != nil {
		return err
	}
	return f.readInterfaces()
}

// label returns text that ends with a zero byte, as drivers and tools show it.
func label(field []byte) (string, error) {
	text, _, ended := bytes.Cut(field, []byte{0})
	if !ended || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("is %.80q: printable ASCII that ends with a zero byte was expected", field)
	}
	return string(text), nil
}

// readSections reads the table of sections, and checks that each lies within the
// container and that no two share a byte.
func (f *File) readSections(count uint32) error {
	if count == 0 || count > maxSections {
		return fmt.Errorf("by its header it has %d sections: 1 to %d were expected", count, maxSections)
	}
	end := axlfSize + int64(count)*sectionSize
	if end > f.Payload.Size {
		return fmt.Errorf("it is cut off: its table of %d sections ends at byte %d, and it has %d", count, end, f.Payload.Size)
	}
	table, err := f.read("table of sections", Span{axlfSize, end - axlfSize})
	if err != nil {
		return err
	}
	for entry := range slices.Chunk(table, sectionSize) {
		s := Section{Kind: SectionKind(binary.LittleEndian.Uint32(entry))}
		if s.Name, err = label(append(slices.Clip(entry[inSectionName:inSectionName+nameSize]), 0)); err != nil {
			return fmt.Errorf("the name of its section %s %w", s.Kind, err)
		}
		offset, size := binary.LittleEndian.Uint64(entry[inSectionAt:]), binary.LittleEndian.Uint64(entry[inSectionSize:])
		if all := uint64(f.Payload.Size); offset > all || size > all-offset {
			return fmt.Errorf("its section %s has %d bytes from byte %d on, and the container has %d: it is damaged or cut off", s.Kind, size, offset, all)
		}
		s.Span = Span{int64(offset), int64(size)}
		f.Container.Sections = append(f.Container.Sections, s)
	}
	return f.checkSections(end)
}

func (f *File) checkSections(free int64) error {
	c := f.Container
	sorted := slices.DeleteFunc(slices.Clone(c.Sections), func(s Section) bool { return s.Size == 0 })
	slices.SortFunc(sorted, func(a, b Section) int { return cmp.Compare(a.Offset, b.Offset) })
	before := "the table of sections"
	for _, s := range sorted {
		if s.Offset < free {
			return fmt.Errorf("its section %s begins at byte %d, and %s goes up to byte %d: it is damaged", s.Kind, s.Offset, before, free)
		}
		before, free = "its section "+s.Kind.String(), s.Offset+s.Size
	}
	for kind := range sectionKinds {
		if n := len(c.of(kind)); n > 1 {
			return fmt.Errorf("it has %d sections %s: one was expected", n, kind)
		}
	}
	for _, kind := range []SectionKind{Bitstream, PDI, PartialPDI} {
		if s := c.of(kind); len(s) > 0 && s[0].Size > 0 {
			c.Bitstream = s[0].Span
			break
		}
	}
	return nil
}

// readInterfaces reads from the partition's metadata the interfaces that the shell must have.
func (f *File) readInterfaces() error {
	b, err := f.section(PartitionMetadata, partitionLimit)
	if err != nil || len(b) == 0 {
		return err
	}
	texts, err := interfaces(b)
	if err != nil {
		return fmt.Errorf("its section %s: %w", PartitionMetadata, err)
	}
	c := f.Container
	for _, text := range texts {
		id, err := ParseUUID(text)
		switch {
		case err != nil:
			return fmt.Errorf("its section %s: an interface_uuid %w", PartitionMetadata, err)
		case id.IsZero():
			return fmt.Errorf("its section %s: an interface_uuid is all zeros", PartitionMetadata)
		case !slices.Contains(c.Interfaces, id):
			c.Interfaces = append(c.Interfaces, id)
		}
	}
	if len(c.Interfaces) == 1 {
		f.InterfaceID = c.Interfaces[0]
	}
	return nil
}

// Section reads the section of a kind of an .xclbin, such as [EmbeddedMetadata],
// the first of several; nil if there is none. One of more than limit bytes is an
// error, and is not read.
func (f *File) Section(kind SectionKind, limit int64) ([]byte, error) {
	b, err := f.section(kind, limit)
	if err != nil {
		return nil, fmt.Errorf("bitstream %s: %w", f.Path, err)
	}
	return b, nil
}

func (f *File) section(kind SectionKind, limit int64) ([]byte, error) {
	if f.Container == nil {
		return nil, fmt.Errorf("it is %s, and only an xclbin has sections", f.Kind)
	}
	s := f.Container.of(kind)
	switch {
	case len(s) == 0:
		return nil, nil
	case s[0].Size > limit:
		return nil, fmt.Errorf("its section %s has %d bytes, and %d are the most that is read", kind, s[0].Size, limit)
	}
	return f.read("section "+kind.String(), s[0].Span)
}

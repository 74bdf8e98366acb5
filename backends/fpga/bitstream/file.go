package bitstream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"
)

// Kind is the format of a file by its content.
type Kind uint8

// The kinds of files.
const (
	// Raw is a file without a header that is known: its bytes go to the card as
	// they are.
	Raw Kind = iota
	// GBS is the format of Intel's OPAE: a header, metadata in JSON, the bitstream.
	GBS
	// Xclbin is the container of AMD's XRT.
	Xclbin
)

// String returns the kind's name, as its files end.
func (k Kind) String() string {
	switch k {
	case Raw:
		return "raw"
	case GBS:
		return "gbs"
	case Xclbin:
		return "xclbin"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// File is an open bitstream file. Its header was checked against its size; it can be used
// concurrently, until it is closed.
type File struct {
	// Path is where it was opened.
	Path string
	Kind Kind
	// Size is that of the whole file in bytes.
	Size int64
	// Payload is what the driver is given: of a .gbs what follows its metadata (the
	// signature too, if it has one), of an .xclbin the whole container, of a raw
	// file all of it. It is never empty.
	Payload Span
	// InterfaceID is the region's or the shell's interface that the file was made
	// for. A .gbs has one; an .xclbin may; it is zero if the file does not report.
	InterfaceID UUID
	// UUID is an .xclbin's own ID; zero for other kinds.
	UUID UUID
	// VBNV is the name of the platform (vendor, board, name, version) that an
	// .xclbin was made for; empty for other kinds, and where the file does not report.
	VBNV string
	// Accelerators are the accelerator functions in a .gbs, at least one; the first
	// is what the card shows as its AFU ID.
	Accelerators []Accelerator
	// Metadata is a .gbs's metadata as written: JSON, at most 64 KiB.
	Metadata []byte

	// Green has further fields of a .gbs; nil for other kinds.
	Green *Green
	// Container has further fields of an .xclbin; nil for other kinds.
	Container *Container

	file   io.ReaderAt
	closer io.Closer
	opened stamp
}

// read returns a part of the file, which the caller has bounded.
func (f *File) read(what string, s Span) ([]byte, error) {
	if s.Offset < 0 || s.Size < 0 || s.Offset > f.Size || s.Size > f.Size-s.Offset {
		return nil, fmt.Errorf("it is cut off: its %s needs %d bytes from byte %d on, and it has %d", what, s.Size, s.Offset, f.Size)
	}
	b := make([]byte, s.Size)
	switch n, err := f.file.ReadAt(b, s.Offset); {
	case int64(n) == s.Size:
		return b, nil
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("its %s ended early: the file became shorter while it was read", what)
	default:
		return nil, fmt.Errorf("its %s cannot be read: %w", what, err)
	}
}

// Reader streams the payload; each has a position of its own.
func (f *File) Reader() *io.SectionReader {
	return io.NewSectionReader(f.file, f.Payload.Offset, f.Payload.Size)
}

// Close closes the file. Mapped memory stays mapped.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

// Green is what a .gbs (a "green bitstream") has besides the IDs.
type Green struct {
	// Version is that of the metadata, or the packager's; nothing depends on it.
	Version float64
	// Platform is the name of the platform, if there is one.
	Platform string
	// PowerW is what the accelerator function draws, in watts; 0 if that is not
	// known.
	PowerW float64
	// ClockHighMHz and ClockLowMHz are what the user clocks are to be set to after
	// programming; 0 if the file leaves them alone.
	ClockHighMHz, ClockLowMHz float64
	// Signed: the payload begins with a signature, as Intel's PACSign puts
	// it between the metadata and the bitstream. It goes to the card, which checks it.
	Signed bool
}

// Accelerator is an accelerator function in a .gbs.
type Accelerator struct {
	// ID is what the port's afu_id is once it is programmed.
	ID   UUID
	Name string
	// Contexts is how many users it can have at once; 0 if that is not known.
	Contexts int
}

// stamp distinguishes versions of a file. The inode's change time is of no use: it also changes
// when the file loses its name to another.
type stamp struct {
	size          int64
	modified      time.Time
	device, inode uint64 // 0 if it is no file of the operating system
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{size: info.Size(), modified: info.ModTime()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		s.device, s.inode = stat.Dev, stat.Ino
	}
	return s
}

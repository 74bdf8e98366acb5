package bitstream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Limit is the size in bytes of the largest file that is taken. The bitstreams of
// the largest cards have about 200 MiB, and a buffer for the kernel's ioctls has a
// length of 32 bits.
const Limit = 1 << 30

// Kind is what a file is by its content.
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

// String is the kind's name, as its files end.
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

// Span is a part of a file, in bytes.
type Span struct {
	Offset, Size int64
}

// File is a bitstream file that is open. What its header says was checked against
// its size; it can be used concurrently, until it is closed.
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
	// for. A .gbs has one; an .xclbin may; it is zero if the file does not say.
	InterfaceID UUID
	// UUID is an .xclbin's own ID; zero for other kinds.
	UUID UUID
	// VBNV is the name of the platform (vendor, board, name, version) that an
	// .xclbin was made for; empty for other kinds, and where the file does not say.
	VBNV string
	// Accelerators are the accelerator functions in a .gbs, at least one; the first
	// is what the card shows as its AFU ID.
	Accelerators []Accelerator
	// Metadata is a .gbs's metadata as written: JSON, at most 64 KiB.
	Metadata []byte

	// Green is what else a .gbs says; nil for other kinds.
	Green *Green
	// Container is what else an .xclbin says; nil for other kinds.
	Container *Container

	file   io.ReaderAt
	closer io.Closer
	opened stamp
}

// Open opens a bitstream and reads what it is for. Links are followed; for a name
// that somebody else chose, see [Find]. Errors are sentences for the operator that
// name the file; [fs.ErrNotExist] and [fs.ErrPermission] are found in them.
func Open(path string) (*File, error) {
	// Not blocking: what is no regular file may wait for a writer when opened.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, unopened(path, err)
	}
	return New(path, f)
}

// New reads what an open file is for; path is its name for the operator. The file
// must be an [io.ReaderAt], as those of package os and of most other file systems.
// It is closed with the result, or at once if there is an error.
func New(path string, f fs.File) (_ *File, err error) {
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	wrong := func(err error) error { return fmt.Errorf("bitstream %s: %w", path, err) }
	info, err := f.Stat()
	if err != nil {
		return nil, unopened(path, err)
	}
	at, ok := f.(io.ReaderAt)
	switch {
	case !info.Mode().IsRegular():
		return nil, wrong(fmt.Errorf("it is no regular file (%s)", info.Mode()))
	case !ok:
		return nil, wrong(fmt.Errorf("its file system cannot read at an offset (%T)", f))
	}
	file, err := parse(path, at, info.Size())
	if err != nil {
		return nil, wrong(err)
	}
	file.closer, file.opened = f, stampOf(info)
	return file, nil
}

// unopened is why a file could not be opened, without the path that err has, too.
func unopened(path string, err error) error {
	var at *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("bitstream %s: there is no such file: %w", path, fs.ErrNotExist)
	case errors.As(err, &at):
		err = at.Err
	}
	return fmt.Errorf("bitstream %s: it cannot be opened: %w", path, err)
}

// parse tells the formats apart by what they begin with.
func parse(path string, at io.ReaderAt, size int64) (*File, error) {
	switch {
	case size < magicSize:
		return nil, fmt.Errorf("it has %d bytes: it is empty or cut off", size)
	case size > Limit:
		return nil, fmt.Errorf("it has %d bytes, and a bitstream has %d at most", size, int64(Limit))
	}
	f := &File{Path: path, Size: size, Payload: Span{0, size}, file: at}
	head, err := f.read("header", Span{0, magicSize})
	if err != nil {
		return nil, err
	}
	begins := func(magic string) bool { return strings.HasPrefix(string(head), magic) }
	switch {
	case begins(gbsMagic + gbsVersion):
		return f, f.readGBS()
	case begins(xclbinMagic + "2\x00"):
		return f, f.readXclbin()
	case begins(gbsMagic):
		return nil, fmt.Errorf("it is a .gbs of a version that is not known (%q): %q was expected",
			head[len(gbsMagic):], gbsVersion)
	case begins(xclbinMagic):
		return nil, fmt.Errorf("it is an xclbin of a version that is not known (%q): an xclbin2 was expected", head[:8])
	case begins(signedMagic):
		return nil, f.signedImage()
	}
	// What is named as a format and is none is damaged, or something else.
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".gbs":
		return nil, fmt.Errorf("it is named .gbs, and begins with %q: %q was expected", head, gbsMagic+gbsVersion)
	case ".xclbin", ".xsabin", ".awsxclbin":
		return nil, fmt.Errorf("it is named %s, and begins with %q: %q was expected", ext, head, xclbinMagic+"2\x00")
	}
	return f, nil
}

// magicSize is how many bytes tell the formats apart.
const magicSize = int64(len(gbsMagic + gbsVersion))

// read is a part of the file, which the caller has bounded.
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

// Close closes the file. What was mapped stays mapped.
func (f *File) Close() error {
	if f.closer == nil {
		return nil
	}
	return f.closer.Close()
}

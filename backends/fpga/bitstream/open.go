package bitstream

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
)

// Limit is the size in bytes of the largest accepted file. The bitstreams of the largest cards
// have about 200 MiB, and a buffer for the kernel's ioctls has a length of 32 bits.
const Limit = 1 << 30

// New reads the header of an open file; path is its name for the operator. The file must be an
// [io.ReaderAt], as those of package os and of most other file systems. It is closed with the
// result, or at once if there is an error.
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

// unopened returns why a file could not be opened, without the path that err has, too.
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

// parse distinguishes the formats by their first bytes.
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
	// A file with a format's extension and other content is damaged, or something else.
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".gbs":
		return nil, fmt.Errorf("it is named .gbs, and begins with %q: %q was expected", head, gbsMagic+gbsVersion)
	case ".xclbin", ".xsabin", ".awsxclbin":
		return nil, fmt.Errorf("it is named %s, and begins with %q: %q was expected", ext, head, xclbinMagic+"2\x00")
	}
	return f, nil
}

// magicSize is how many bytes distinguish the formats.
const magicSize = int64(len(gbsMagic + gbsVersion))

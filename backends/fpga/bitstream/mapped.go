package bitstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Map maps the payload for reading, for a driver that needs contiguous memory, and returns a
// function that unmaps it. It works for files of package os.
//
// The pages are those of the page cache. If the file is made shorter
// meanwhile, the kernel answers EFAULT to a driver that reads them; code of this
// process that reads them gets SIGBUS, so give the memory to the kernel only.
func (f *File) Map() (payload []byte, unmap func() error, err error) {
	file, err := f.OS()
	if err != nil {
		return nil, nil, err
	}
	within := f.Payload.Offset % int64(os.Getpagesize())
	all, err := unix.Mmap(int(file.Fd()), f.Payload.Offset-within, int(within+f.Payload.Size), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return nil, nil, fmt.Errorf("bitstream %s: it cannot be mapped: %w", f.Path, err)
	}
	return all[within:], func() error { return unix.Munmap(all) }, nil
}

// OS returns the open file, to pass it to a program: whatever happens to its name, it is the
// file that was checked. The caller does not close it.
func (f *File) OS() (*os.File, error) {
	file, ok := f.closer.(*os.File)
	if !ok {
		return nil, fmt.Errorf("bitstream %s: it is no file of the operating system (%T)", f.Path, f.closer)
	}
	return file, nil
}

// Unchanged returns an error if the file was written to since it was checked. A file that
// replaced it under its name is another file, and does not matter to this one.
func (f *File) Unchanged() error {
	file, ok := f.closer.(fs.File)
	if !ok {
		return fmt.Errorf("bitstream %s: it is not open", f.Path)
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("bitstream %s: it is not known whether it changed: %w", f.Path, err)
	}
	if stampOf(info) != f.opened {
		return fmt.Errorf("bitstream %s: %w since it was opened: write a new file and rename it over the old one", f.Path, ErrChanged)
	}
	return nil
}

// Version distinguishes this file from others and from later versions of itself, in a text to
// compare: a file that was written to, or that was replaced under its name, has another
// one, even if it has the same IDs. The same file under another name has the same.
func (f *File) Version() string {
	return fmt.Sprintf("%d:%d:%d:%d", f.opened.device, f.opened.inode, f.opened.size, f.opened.modified.UnixNano())
}

// ErrChanged means that a file is written to while it is in use.
var ErrChanged = errors.New("it was changed")

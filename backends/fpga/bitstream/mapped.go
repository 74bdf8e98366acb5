package bitstream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Map maps the payload for reading, for a driver that wants it in one piece of
// memory, and says how to undo it. It works for files of package os.
//
// The pages are those of the page cache. If somebody makes the file shorter
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

// OS is the open file, for a program that is given it: whatever is done to its name,
// it is the file that was checked. The caller does not close it.
func (f *File) OS() (*os.File, error) {
	file, ok := f.closer.(*os.File)
	if !ok {
		return nil, fmt.Errorf("bitstream %s: it is no file of the operating system (%T)", f.Path, f.closer)
	}
	return file, nil
}

// Unchanged says whether the file is still the one that was checked: an error if
// it was written to since. A file that was replaced under its name is another
// file, and does not matter to this one.
func (f *File) Unchanged() error {
	file, ok := f.closer.(fs.File)
	if !ok {
		return fmt.Errorf("bitstream %s: it is not open", f.Path)
	}
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("bitstream %s: whether it changed cannot be told: %w", f.Path, err)
	}
	if stampOf(info) != f.opened {
		return fmt.Errorf("bitstream %s: %w since it was opened: write a new file and rename it over the old one", f.Path, ErrChanged)
	}
	return nil
}

// Version tells this file from others and from later versions of itself, in a text to
// compare: a file that was written to, or that was replaced under its name, has another
// one, even if it has the same IDs. The same file under another name has the same.
func (f *File) Version() string {
	return fmt.Sprintf("%d:%d:%d:%d", f.opened.device, f.opened.inode, f.opened.size, f.opened.modified.UnixNano())
}

// ErrChanged means that a file is written to while it is in use.
var ErrChanged = errors.New("it was changed")

// stamp tells versions of a file apart. The time of the inode's change is not of
// use: it goes on, too, when the file loses its name to another.
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

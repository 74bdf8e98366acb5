package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrIrregular reports that there is something else at a path than a file of the agent's own.
var ErrIrregular = errors.New("not a file of its own")

// Open opens a file in a directory of the agent's, which [os.O_CREATE] creates. It neither follows a link
// nor waits for the other end of a named pipe: the error is an [ErrIrregular]. A file with another name, as a hard link, is not opened for writing. [os.O_TRUNC] is the caller's
// mistake: it changes a file before it is checked.
func Open(path string, flags int, perm fs.FileMode) (*os.File, error) {
	// Before it is opened: that has effects on some devices.
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%w: %s is a symbolic link", ErrIrregular, path)
	} else if err == nil && !info.Mode().IsRegular() {
		return nil, notRegular(path)
	}
	file, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch writes := flags&(os.O_WRONLY|os.O_RDWR) != 0; {
	case !info.Mode().IsRegular():
		err = notRegular(path)
	case writes && ok && stat.Nlink > 1:
		err = fmt.Errorf("%w: %s has another name, as a hard link", ErrIrregular, path)
	default:
		return file, nil
	}
	return nil, errors.Join(err, file.Close())
}

func notRegular(path string) error {
	return fmt.Errorf("%w: %s is not a regular file", ErrIrregular, path)
}

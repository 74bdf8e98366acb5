// Package statefile reads and replaces the small files in which a backend keeps what must outlive its process.
//
// The directory is the backend's own, but without a sandbox other processes may write to it as well: what
// they leave there in place of a file is neither followed, nor waited for, nor written to.
package statefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxSize bounds what is read, in bytes.
const maxSize = 16 << 20

// Open opens a regular file to read it, or to lock it with [os.O_CREATE]. Anything else is an error, that
// of [fs.ErrNotExist] aside one that tells the operator to remove it.
func Open(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err == nil {
		var info fs.FileInfo
		if info, err = file.Stat(); err == nil && info.Mode().IsRegular() {
			return file, nil
		}
		err = errors.Join(err, file.Close(), fmt.Errorf("%s is not a regular file: remove it", path))
	} else if errors.Is(err, syscall.ELOOP) {
		err = fmt.Errorf("%s is a symbolic link: remove it", path)
	}
	return nil, err
}

// Read reads a file.
func Read(path string) ([]byte, error) {
	file, err := Open(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err == nil && len(data) > maxSize {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxSize)
	}
	return data, err
}

// Replace replaces a file as a whole, and makes its directory, which others may enter if they may read the
// file. With durable, the file survives a loss of power; otherwise it may then be empty.
func Replace(path string, data []byte, perm fs.FileMode, durable bool) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, perm|(perm&0o444)>>2|0o700); err != nil {
		return err
	}
	// A draft is left by a crash. Another one's is not opened.
	draft := filepath.Join(dir, "."+filepath.Base(path))
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if durable {
		err = errors.Join(err, file.Sync())
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft))
	}
	if !durable {
		return nil
	}
	holds, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(holds.Sync(), holds.Close())
}

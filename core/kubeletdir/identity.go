package kubeletdir

import (
	"io/fs"
	"os"
	"syscall"
	"time"
)

// FileID differs between two files of one name: each process of kubelet, or of a plugin, makes sockets of its own. The
// inode number is not enough: some file systems use it again immediately.
type FileID struct {
	device, inode uint64
	// Modified is when a socket was made.
	Modified time.Time
}

// Identify returns the ID of a file, zero if it does not exist.
func Identify(path string) FileID {
	info, err := os.Lstat(path)
	if err != nil {
		return FileID{}
	}
	return IdentityOf(info)
}

// IdentityOf returns the ID of a file that was looked up.
func IdentityOf(info fs.FileInfo) FileID {
	id := FileID{Modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		id.device, id.inode = sys.Dev, sys.Ino
	}
	return id
}

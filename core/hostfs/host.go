package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Host has the paths of the host's trees in this process. In the zero Host all files are hidden.
type Host struct {
	// Devfs is the host's /dev, such as /host/dev. Its parent directory has the host's other trees.
	Devfs string
	// Sysfs is the host's /sys, Procfs this process's own /proc. Without them links of /proc,
	// bind mounts and numbers of devices are not recognized.
	Sysfs, Procfs string
}

// Missing reports whether there is nothing at a path below the host's /dev. A link counts as
// present: its target depends on the root from which it is read. A path that cannot be
// checked counts as present, too.
func (h Host) Missing(hostPath string) bool {
	if !strings.HasPrefix(hostPath, "/dev/") {
		return false
	}
	_, err := os.Lstat(h.here(hostPath))
	return isMissing(err)
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// here returns the path in this process of a path of the host.
func (h Host) here(hostPath string) string {
	if below, ok := strings.CutPrefix(hostPath, "/dev/"); ok {
		return filepath.Join(h.Devfs, below)
	}
	return filepath.Join(filepath.Dir(h.Devfs), hostPath)
}

// there is the inverse of here; false for a path that is not in one of the host's trees.
func (h Host) there(path string) (string, bool) {
	if below, ok := relative(h.Devfs, path); ok {
		return filepath.Join("/dev", below), true
	}
	below, ok := relative(filepath.Dir(h.Devfs), path)
	return filepath.Join("/", below), ok
}

// relative returns the part of a path below a directory, "" for the directory itself; false if
// the path is elsewhere.
func relative(dir, path string) (string, bool) {
	if dir == path || dir == "/" {
		return strings.TrimPrefix(path, dir), true
	}
	return strings.CutPrefix(path, dir+"/")
}

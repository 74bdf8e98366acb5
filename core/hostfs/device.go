package hostfs

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// IsDevice reports whether the file is a character or block device.
func (f *File) IsDevice() bool { return f.Mode&fs.ModeDevice != 0 }

// IsBlock reports whether the file is a block device.
func (f *File) IsBlock() bool { return f.Mode.Type() == fs.ModeDevice }

// Made returns the node that a runtime makes by numbers; the host does not have it, so it is hidden.
func (v *View) Made(hostPath string, block bool, major, minor uint32) *File {
	f := &File{Path: hostPath, Hidden: true, Mode: fs.ModeDevice, Number: unix.Mkdev(major, minor), view: v}
	if !block {
		f.Mode |= fs.ModeCharDevice
	}
	return f
}

// HasNumber reports whether the file is the node of a device.
func (f *File) HasNumber(block bool, major, minor uint32) bool {
	return f.IsDevice() && f.IsBlock() == block && f.Number == unix.Mkdev(major, minor)
}

// Devices returns the kernel's names for the number of a device, as paths in /dev. If
// exact, it is the one path at which devtmpfs has the device. Otherwise the kernel has no such
// path, as for NVIDIA's driver, and the names are those of drivers with that major number. There
// are none if the number is not known, or has no driver now.
func (f *File) Devices() (names []string, exact bool, err error) {
	major, minor := unix.Major(f.Number), unix.Minor(f.Number)
	kind := "dev/char"
	if f.IsBlock() {
		kind = "dev/block"
	} else if node, ok := builtin[[2]uint32{major, minor}]; ok {
		return []string{node}, true, nil
	}
	uevent, err := os.ReadFile(filepath.Join(f.view.host.Sysfs, kind, fmt.Sprintf("%d:%d", major, minor), "uevent"))
	if err != nil && !isMissing(err) {
		return nil, false, fmt.Errorf("cannot be identified: %w", err)
	}
	for line := range strings.Lines(string(uevent)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "DEVNAME="); ok {
			return []string{path.Join("/dev", name)}, true, nil
		}
	}
	if f.IsBlock() {
		return nil, false, nil
	}
	names, err = f.view.drivers(major)
	return names, false, err
}

// builtin are the nodes with fixed numbers that every container has
// (Documentation/admin-guide/devices.txt): others of their major are the node's memory.
var builtin = map[[2]uint32]string{
	{1, 3}: "/dev/null", {1, 5}: "/dev/zero", {1, 7}: "/dev/full", {1, 8}: "/dev/random", {1, 9}: "/dev/urandom",
}

// drivers returns the names with a major number in the first part of /proc/devices: "  4 tty",
// or "  5 /dev/tty".
func (v *View) drivers(major uint32) (names []string, err error) {
	if v.host.Procfs == "" {
		return nil, nil
	}
	file, err := os.Open(filepath.Join(v.host.Procfs, "devices"))
	if isMissing(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("cannot be identified: %w", err)
	}
	defer file.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(file)
	for lines.Scan() && lines.Text() != "Block devices:" {
		number, name, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if number == strconv.FormatUint(uint64(major), 10) {
			names = append(names, path.Join("/dev", strings.TrimPrefix(name, "/dev/")))
		}
	}
	return slices.Compact(names), lines.Err()
}

// maxProgram bounds the size of a file that is read for its digest, in bytes.
const maxProgram = 1 << 30

// Digest returns the SHA-256 digest of a regular file, in hex. The error completes a phrase that
// begins with the path.
func (f *File) Digest() (string, error) {
	if f.digest == "" {
		var err error
		if f.digest, err = digest(f.view.host.here(f.Path)); err != nil {
			return "", fmt.Errorf("cannot be read: %w", err)
		}
	}
	return f.digest, nil
}

func digest(name string) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	if info, err := file.Stat(); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() || info.Size() > maxProgram {
		return "", fmt.Errorf("it is not a regular file of at most %d bytes", maxProgram)
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(file, maxProgram)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

package fpgadevice

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Write is a write to a file of sysfs by code of this process.
func (d *Device) Write(path, text string) error {
	file, ok := d.attribute(path)
	if !ok {
		return fmt.Errorf("%s is no file of sysfs of the tree %s", path, d.tree.Root)
	}
	switch errno, handled := d.clear(file, text); {
	case handled && errno == 0:
		return nil
	case handled:
		return &os.PathError{Op: "write", Path: path, Err: errno}
	}
	return d.tree.SetFile(file, text)
}

// attribute is a file of sysfs below the tree's root.
func (d *Device) attribute(path string) (string, bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	file, err := filepath.Rel(filepath.Dir(d.dev), real)
	return file, err == nil && strings.HasPrefix(file, "sys/")
}

// clears are the registers that writing to a file clears, if they have the value
// written: errors_store in dfl-afu-error.c, fme_errors_store and pcie0_errors_store in
// dfl-fme-error.c. The first is the one whose value counts; those of others can only be
// read.
var clears = map[string][]string{
	"errors":       {"errors", "first_error"},
	"fme_errors":   {"fme_errors", "first_error", "next_error"},
	"pcie0_errors": {"pcie0_errors"}, "pcie1_errors": {"pcie1_errors"},
	"catfatal_errors": nil, "nonfatal_errors": nil, "first_error": nil, "next_error": nil, "first_malformed_req": nil,
}

// clearsOPAE are those of the older driver, which has a file for it (clear_store in its
// afu-error.c and fme-error.c).
var clearsOPAE = map[string][]string{
	"clear":        {"errors", "first_error", "next_error"},
	"pcie0_errors": {"pcie0_errors"}, "pcie1_errors": {"pcie1_errors"},
	"errors": nil, "catfatal_errors": nil, "nonfatal_errors": nil, "first_error": nil, "next_error": nil, "first_malformed_req": nil,
}

// clear is the store of the error registers.
func (d *Device) clear(file, text string) (unix.Errno, bool) {
	dir, name := filepath.Split(file)
	rules, other := clears, unix.EINVAL
	if strings.Contains(file, "/intel-fpga-") {
		rules, other = clearsOPAE, unix.EBUSY
	}
	all, known := rules[name]
	if base := filepath.Base(dir); base != "errors" && base != "fme-errors" || !known {
		return 0, false
	}
	if len(all) == 0 {
		return unix.EIO, true // no store function
	}
	written, err := strconv.ParseUint(strings.TrimSuffix(text, "\n"), 0, 64)
	has, err2 := d.register(filepath.Join(dir, all[0]))
	switch {
	case err != nil:
		return unix.EINVAL, true
	case err2 != nil:
		return unix.ENODEV, true
	case written != has:
		return other, true
	}
	for _, r := range all {
		if _, err := os.Lstat(filepath.Join(d.tree.Root, dir, r)); err != nil {
			continue
		}
		if err := d.tree.SetFile(filepath.Join(dir, r), "0x0\n"); err != nil {
			return unix.ENODEV, true
		}
	}
	return 0, true
}

// register is the value of an error register.
func (d *Device) register(file string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(d.tree.Root, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.Trim(string(b), "\x00\n "), 0, 64)
}

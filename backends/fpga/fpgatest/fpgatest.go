// Package fpgatest has what the tests of the drivers share.
package fpgatest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/bitstream"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// OK fails the test for an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Tree returns the tree of a machine.
func Tree(t testing.TB, m fpgatree.Machine) *fpgatree.Tree {
	t.Helper()
	tree, err := fpgatree.Write(sysroot.TempDir(t), m)
	OK(t, err)
	return tree
}

// Captured returns the tree of an archive.
func Captured(t testing.TB, archive string) *fpgatree.Tree {
	t.Helper()
	tree, err := fpgatree.Unpack(sysroot.TempDir(t), archive)
	OK(t, err)
	return tree
}

// Bitstream returns a file with a name and content.
func Bitstream(t testing.TB, name string, content []byte) *bitstream.File {
	t.Helper()
	dir := t.TempDir()
	OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	f, err := bitstream.Find(dir, name)
	OK(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// Text returns damage that gives a file another content.
func Text(s string) sysroot.Damage {
	return func(path string) error { return os.WriteFile(path, []byte(s), 0o600) }
}

// Problems returns problems in a line each.
func Problems(all []driver.Problem) []string {
	var lines []string
	for _, p := range all {
		lines = append(lines, fmt.Sprintf("%s (lost %t): %v", p.Device, p.Lost, p.Err))
	}
	return lines
}

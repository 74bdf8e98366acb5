// Package devicetree makes trees of /sys, /dev and /proc from text, for tests of described
// devices. A line is one file:
//
//	sys/devices/virtual/misc/kvm/dev: 10:232        a file with its content, where \n is a new line
//	sys/class/misc/kvm -> ../../devices/x/kvm       a link
//	sys/devices/virtual/net/                        a directory
//	dev/kvm: c 10:232                               a device node, as [Node] reads it
//	- sys/class/misc/kvm                            remove it, with all that is in it
//
// Empty lines and those that begin with # are ignored. A later line replaces what is there.
package devicetree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Tree is a tree in a directory.
type Tree struct{ Root string }

// New makes a tree that is removed with the test.
func New(tb testing.TB, text string) Tree {
	tb.Helper()
	t := Tree{sysroot.TempDir(tb)}
	t.Change(tb, text)
	return t
}

// Change makes further lines. An error ends the test.
func (t Tree) Change(tb testing.TB, text string) {
	tb.Helper()
	if err := t.Write(text); err != nil {
		tb.Fatal(err)
	}
}

// Host returns the paths of the tree.
func (t Tree) Host() sdk.HostPaths {
	return sdk.HostPaths{Sysfs: filepath.Join(t.Root, "sys"), Devfs: filepath.Join(t.Root, "dev"), Procfs: filepath.Join(t.Root, "proc")}
}

// Write makes the files of lines. No file is outside the tree.
func (t Tree) Write(text string) error {
	for _, dir := range []string{"sys", "dev", "proc"} {
		if err := os.MkdirAll(filepath.Join(t.Root, dir), 0o755); err != nil {
			return err
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := t.line(line); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

func (t Tree) line(line string) error {
	if name, ok := strings.CutPrefix(line, "- "); ok {
		return os.RemoveAll(t.at(name))
	}
	if name, target, ok := strings.Cut(line, " -> "); ok {
		return t.replace(name, func(at string) error { return errors.Join(os.RemoveAll(at), os.Symlink(target, at)) })
	}
	if name, content, ok := strings.Cut(line, ": "); ok {
		content = strings.ReplaceAll(content, `\n`, "\n") + "\n"
		return t.replace(name, func(at string) error { return os.WriteFile(at, []byte(content), 0o644) })
	}
	return os.MkdirAll(t.at(strings.TrimSuffix(line, ":")), 0o755)
}

func (t Tree) replace(name string, make func(at string) error) error {
	at := t.at(name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if info, err := os.Lstat(at); err == nil && !info.Mode().IsRegular() {
		if err := os.RemoveAll(at); err != nil {
			return err
		}
	}
	return make(at)
}

// MakeNodes makes device nodes of the files that stand for them, for programs, which read them as the kernel has
// them. It needs root. Their mode is 0660.
func (t Tree) MakeNodes(tb testing.TB) {
	tb.Helper()
	err := filepath.WalkDir(filepath.Join(t.Root, "dev"), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		mode, number, err := Node(at)
		if err != nil || mode&fs.ModeDevice == 0 {
			return err
		}
		kind := uint32(unix.S_IFBLK)
		if mode&fs.ModeCharDevice != 0 {
			kind = unix.S_IFCHR
		}
		return errors.Join(os.Remove(at), unix.Mknod(at, kind|0o660, int(unix.Mkdev(number.Major, number.Minor)))) //nolint:gosec // 32 bits
	})
	if errors.Is(err, fs.ErrPermission) {
		host.Lacks(tb, "device nodes need root: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func (t Tree) at(name string) string { return filepath.Join(t.Root, path.Clean("/"+name)) }

// Node returns the type and number of a device node of a tree, for match.Finder: a file with
// "c 10:232", or "b 7:0" for a block device.
func Node(at string) (fs.FileMode, devnode.Number, error) {
	if info, err := os.Stat(at); err != nil || info.IsDir() {
		return fs.ModeDir, devnode.Number{}, err
	}
	text, err := os.ReadFile(at)
	if err != nil {
		return 0, devnode.Number{}, err
	}
	var kind string
	var n devnode.Number
	if _, err := fmt.Sscanf(string(text), "%1s %d:%d", &kind, &n.Major, &n.Minor); err != nil {
		return 0, n, nil //nolint:nilerr // a plain file
	}
	mode := fs.ModeDevice
	if kind == "c" {
		mode |= fs.ModeCharDevice
	}
	return mode, n, nil
}

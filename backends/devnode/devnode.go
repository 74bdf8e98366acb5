package devnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/sdk"
)

// Settings define what a container gets with a device in addition to the nodes.
type Settings struct {
	Groups Groups `json:"groups"`
}

// Groups defines whether a container gets the groups that may use the nodes.
type Groups string

const (
	// Auto gives them if other users may not read and write, as udev does on most systems.
	Auto Groups = "auto"
	// None gives none.
	None Groups = "none"
)

// Node is a device node for a container.
type Node struct {
	// Path is the path on the host, such as /dev/dri/renderD128.
	Path string
	// Number is the device number that it must have; nil for any.
	Number *Number
}

// Number is the number of a character device.
type Number struct{ Major, Minor uint32 }

// String returns the number as the kernel writes it, such as 226:128.
func (n Number) String() string { return fmt.Sprintf("%d:%d", n.Major, n.Minor) }

// Edits returns the edits for the nodes, below the root of the host's device nodes. It returns
// an error, shown to operators as it is, if a node is missing or is something else.
func (s Settings) Edits(devfs string, nodes ...Node) (*sdk.Edits, error) {
	edits := &sdk.Edits{}
	for _, node := range nodes {
		gid, err := node.inspect(devfs)
		if err != nil {
			return nil, err
		}
		edits.DeviceNodes = append(edits.DeviceNodes, &sdk.DeviceNode{Path: node.Path})
		if s.Groups == Auto && gid != 0 && !slices.Contains(edits.AdditionalGids, gid) {
			edits.AdditionalGids = append(edits.AdditionalGids, gid)
		}
	}
	slices.Sort(edits.AdditionalGids)
	return edits, nil
}

// inspect checks that a node is what it must be, and returns the group that a process needs to
// read and write it; 0 if it needs none, or if no group helps.
func (n Node) inspect(devfs string) (gid uint32, err error) {
	path := filepath.Join(devfs, strings.TrimPrefix(n.Path, "/dev/"))
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("device node %s is missing (no file %s): check that udev runs", n.Path, path)
	}
	if err != nil {
		return 0, fmt.Errorf("device node %s: %w", n.Path, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("device node %s: what it is cannot be seen", n.Path)
	}
	switch kind := info.Mode() & fs.ModeType; {
	case kind == fs.ModeDevice|fs.ModeCharDevice:
		is := Number{unix.Major(stat.Rdev), unix.Minor(stat.Rdev)}
		if n.Number != nil && is != *n.Number {
			return 0, fmt.Errorf("device node %s is the device %s, want %s", n.Path, is, n.Number)
		}
	case kind != 0: // tests without privileges use a plain file as a node
		return 0, fmt.Errorf("device node %s is no device but %v", n.Path, info.Mode())
	}
	const group, others = 0o060, 0o006
	if mode := info.Mode().Perm(); mode&others == others || mode&group != group {
		return 0, nil
	}
	return stat.Gid, nil
}

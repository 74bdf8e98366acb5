package amd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/sdk"
)

// editSettings say what a container gets with a device beside the nodes.
type editSettings struct {
	Groups groups `json:"groups"`
}

// groups says whether a container gets the groups that may use the nodes.
type groups string

const (
	// groupsAuto: where others may not read and write, as udev has it on most systems.
	groupsAuto groups = "auto"
	groupsNone groups = "none"
)

func (s editSettings) check(at string, errs *sdk.FieldErrors) {
	if s.Groups != groupsAuto && s.Groups != groupsNone {
		errs.Add(at+".groups", "%q is none: auto or none", s.Groups)
	}
}

// drmMajor is the number of DRM's devices (DRM_MAJOR in include/drm/drm_drv.h).
const drmMajor = 226

// given is what a container gets, or why nothing.
type given struct {
	edits *sdk.Edits
	err   error
}

// nodesOf are the host's paths of a partition's own nodes.
func nodesOf(p gpu.Partition) []string {
	nodes := []string{fmt.Sprintf("/dev/dri/renderD%d", p.Render)}
	if p.Card != drm.None {
		nodes = append(nodes, fmt.Sprintf("/dev/dri/card%d", p.Card))
	}
	return nodes
}

// of makes the edits of a partition: KFD's node, which all share, and its own. They
// are an error while one of the nodes is missing or something else.
func (s editSettings) of(devfs string, p gpu.Partition) given {
	nodes := append([]string{"/dev/kfd"}, nodesOf(p)...)
	minors := []int{-1, p.Render, p.Card}
	edits := sdk.Nodes(nodes...)
	for i, node := range nodes {
		gid, err := inspect(devfs, node, minors[i])
		if err != nil {
			return given{err: err}
		}
		if s.Groups == groupsAuto && gid != 0 && !slices.Contains(edits.AdditionalGids, gid) {
			edits.AdditionalGids = append(edits.AdditionalGids, gid)
		}
	}
	slices.Sort(edits.AdditionalGids)
	return given{edits: edits}
}

// inspect makes sure that a node is the one with its minor (any if it is negative), and
// is the group that a process needs to read and write it; 0 if it needs none, or if no
// group helps.
func inspect(devfs, node string, minor int) (gid uint32, err error) {
	path := filepath.Join(devfs, node[len("/dev/"):])
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("device node %s is missing (looked for %s): see whether udev runs", node, path)
	}
	if err != nil {
		return 0, fmt.Errorf("device node %s: %w", node, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("device node %s: what it is cannot be seen", node)
	}
	switch kind := info.Mode() & fs.ModeType; {
	case kind == fs.ModeDevice|fs.ModeCharDevice:
		if at := unix.Minor(stat.Rdev); minor >= 0 && (unix.Major(stat.Rdev) != drmMajor || at != uint32(minor)) {
			return 0, fmt.Errorf("device node %s is the device %d:%d, want %d:%d", node, unix.Major(stat.Rdev), at, drmMajor, minor)
		}
	case kind != 0: // a plain file stands for a node where nobody may make one
		return 0, fmt.Errorf("device node %s is no device but %v", node, info.Mode())
	}
	const group, others = 0o060, 0o006
	if mode := info.Mode().Perm(); mode&others == others || mode&group != group {
		return 0, nil
	}
	return stat.Gid, nil
}

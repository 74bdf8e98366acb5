package inventory

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// HostNodes gives access to the host's device nodes, and network interfaces.
type HostNodes struct {
	// Devfs is the path of the host's /dev in this process, such as /host/dev; other paths of
	// the host are beside it. If it is "", no path of the host is visible.
	Devfs string
	// NetHook is the host's path of accelmux-net-hook, which moves network interfaces into
	// containers; "" if it is not installed.
	NetHook string
}

// HostNode is a device node of the host.
type HostNode struct {
	// Path is the path on the host, without symbolic links.
	Path string
	// GID is the group that owns it.
	GID uint32
}

// maxSymlinks is how many links the kernel follows in one path: MAXSYMLINKS in
// include/linux/namei.h.
const maxSymlinks = 40

// Find follows the symbolic links of a host path and checks that a container may have the
// node. The error is for the operator; it is an fs.ErrNotExist if the node is not visible to
// this process. Regular files are accepted: runtimes refuse them, and tests use them instead of
// nodes.
//
// For a container runtime without CDI, callers must pass the returned path: such a runtime
// follows links and accepts any kind of node. With CDI the spec has the type, and the
// runtime checks it.
func (h HostNodes) Find(hostPath string) (HostNode, error) {
	if h.Devfs == "" {
		return HostNode{}, fs.ErrNotExist
	}
	resolved, info, err := h.resolve(hostPath)
	if err != nil {
		return HostNode{}, err
	}
	if resolved != hostPath && denied(resolved) {
		return HostNode{}, fmt.Errorf("device node %s is a link to %s, which is never given to a container: it reaches memory, disks or the kernel",
			quote(hostPath), quote(resolved))
	}
	if kind := refusedKind(info.Mode()); kind != "" {
		return HostNode{}, fmt.Errorf("device node %s is %s; only character devices are given to containers", quote(hostPath), kind)
	}
	node := HostNode{Path: resolved}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		node.GID = stat.Gid
	}
	return node, nil
}

// refusedKind names a kind of file that containers never get as a device node; "" for others.
func refusedKind(mode fs.FileMode) string {
	switch mode.Type() {
	case fs.ModeDevice | fs.ModeCharDevice, 0:
		return ""
	case fs.ModeDevice:
		return "a block device"
	case fs.ModeDir:
		return "a directory"
	}
	return "a pipe or a socket"
}

// resolve returns the path without links. An absolute target of a link is a path on the
// host.
func (h HostNodes) resolve(hostPath string) (resolved string, info fs.FileInfo, err error) {
	resolved = "/"
	rest := hostPath
	for links := 0; rest != ""; {
		var part string
		part, rest, _ = strings.Cut(strings.TrimLeft(rest, "/"), "/")
		next := path.Join(resolved, part)
		if next == "/dev" { // Devfs, which may be a link
			resolved = next
			continue
		}
		if info, err = os.Lstat(h.here(next)); errors.Is(err, fs.ErrNotExist) && links > 0 {
			return "", nil, fmt.Errorf("device node %s is a link to %s, which is not visible to the agent", quote(hostPath), quote(next))
		} else if err != nil {
			return "", nil, fmt.Errorf("device node %s: %w", quote(hostPath), err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			resolved = next
			continue
		}
		if links++; links > maxSymlinks {
			return "", nil, fmt.Errorf("device node %s: too many symbolic links", quote(hostPath))
		}
		target, err := os.Readlink(h.here(next))
		if err != nil {
			return "", nil, fmt.Errorf("device node %s: %w", quote(hostPath), err)
		}
		if path.IsAbs(target) {
			resolved = "/"
		}
		rest = target + "/" + rest
	}
	if info == nil || resolved == "/dev" || resolved == "/" {
		return "", nil, fmt.Errorf("device node %s is the directory %s", quote(hostPath), resolved)
	}
	return resolved, info, nil
}

// Missing reports whether there is nothing at a path below the host's /dev. A link counts as
// present: its target depends on the root from which it is read. A path that cannot be
// checked counts as present, too.
func (h HostNodes) Missing(hostPath string) bool {
	if !strings.HasPrefix(hostPath, "/dev/") {
		return false
	}
	_, err := os.Lstat(h.here(hostPath))
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// here returns the path in this process of a path of the host.
func (h HostNodes) here(hostPath string) string {
	if below, ok := strings.CutPrefix(hostPath, "/dev/"); ok {
		return filepath.Join(h.Devfs, below)
	}
	return filepath.Join(filepath.Dir(h.Devfs), hostPath)
}

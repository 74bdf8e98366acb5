package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hiddenAlways are directories with other services' sockets and files. What a backend declares in them stays
// visible. Landlock restricts connections to sockets only from ABI 9 on.
var hiddenAlways = []string{"/run", "/var/run", "/tmp", "/var/tmp", "/dev/shm"}

// mounts gives the process a mount namespace in which the hidden directories are empty, except for what it
// needs. Mounts that the node makes later appear in it, too.
func (s *shim) mounts() {
	if s.Container {
		s.measured(Mounts, ofContainer, nil)
		return
	}
	s.measured(Mounts, "", func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("a mount namespace needs CAP_SYS_ADMIN, and that the agent may make namespaces: %w", err)
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
			return fmt.Errorf("separate the mounts from the agent's: %w", err)
		}
		visible, err := s.visible()
		if err != nil {
			return err
		}
		for _, dir := range hidden(s.Hidden) {
			if slices.ContainsFunc(visible, func(v visiblePath) bool { return v.path == dir }) {
				continue
			}
			if err := hide(dir, visible); err != nil {
				return fmt.Errorf("hide %s: %w", dir, err)
			}
		}
		for _, v := range visible {
			_ = unix.Close(v.fd)
		}
		return nil
	}())
}

// hidden returns the directories without symbolic links, each once, outer ones first.
func hidden(more []string) (dirs []string) {
	for _, dir := range slices.Concat(hiddenAlways, more) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dirs = append(dirs, real)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// visiblePath is a file or directory that the process sees where it is.
type visiblePath struct {
	path string // without symbolic links, but for its last part
	fd   int    // O_PATH
	dir  bool
}

// visible opens what the process needs, outer paths first.
func (s *shim) visible() (all []visiblePath, err error) {
	paths := append([]string{s.Dir, filepath.Dir(s.Program)}, s.Programs...)
	for _, tree := range []string{s.Paths.Sysfs, s.Paths.Devfs, s.Paths.Procfs} {
		if tree != "" {
			paths = append(paths, tree) // it may see what it may not open
		}
	}
	for _, f := range s.found {
		paths = slices.Concat(paths, f.files, f.dirs)
	}
	if target, err := filepath.EvalSymlinks(s.Program); err == nil {
		paths = append(paths, target)
	}
	for _, path := range paths {
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			continue // it does not exist
		}
		v := visiblePath{path: filepath.Join(parent, filepath.Base(path))}
		if slices.ContainsFunc(all, func(o visiblePath) bool { return o.path == v.path }) {
			continue
		}
		// A link leads to its target, as before.
		if v.fd, err = unix.Open(v.path, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		var info unix.Stat_t
		if err := unix.Fstat(v.fd, &info); err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		v.dir = info.Mode&unix.S_IFMT == unix.S_IFDIR
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b visiblePath) int { return cmp.Compare(a.path, b.path) })
	return all, nil
}

// hide covers a directory with an empty one, in which it mounts the visible paths below it.
func hide(dir string, visible []visiblePath) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // an outer directory hides it
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("accelmux", dir, "tmpfs", flags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for i, v := range visible {
		// The mount of a directory has what is in it.
		inner := slices.ContainsFunc(visible[:i], func(o visiblePath) bool {
			return o.dir && strings.HasPrefix(o.path, dir+"/") && strings.HasPrefix(v.path, o.path+"/")
		})
		if !strings.HasPrefix(v.path, dir+"/") || inner {
			continue
		}
		if err := v.mount(); err != nil {
			return fmt.Errorf("make %s visible: %w", v.path, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make it read-only: %w", err)
	}
	return nil
}

// mount makes the path in the covering directory, and mounts what was there before.
func (v visiblePath) mount() error {
	defer unix.Umask(unix.Umask(0o022)) // its user must pass through
	if err := os.MkdirAll(filepath.Dir(v.path), 0o755); err != nil {
		return err
	}
	if v.dir {
		if err := os.MkdirAll(v.path, 0o755); err != nil {
			return err
		}
	} else {
		file, err := os.OpenFile(v.path, os.O_CREATE|os.O_RDONLY, 0o444)
		if err != nil {
			return err
		}
		_ = file.Close() // empty
	}
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", v.fd), v.path, "", unix.MS_BIND|unix.MS_REC, "")
}

// network gives the process a network namespace without a network. The kernel's device events arrive in it,
// except for those of network interfaces.
func (s *shim) network() {
	if len(s.Needs.Interfaces) > 0 {
		s.networkErr = errors.New("the agent's namespace, for the events of network interfaces")
	} else if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		s.networkErr = fmt.Errorf("the agent's namespace, since one of its own needs CAP_SYS_ADMIN and that the agent may make namespaces (%w)", err)
	}
}

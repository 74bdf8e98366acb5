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

// hiddenAlways are directories with other services' sockets and files, which no backend needs as a
// whole: what it declares in them stays. Landlock restricts files, and the connections to sockets only
// from ABI 9 on.
var hiddenAlways = []string{"/run", "/var/run", "/tmp", "/var/tmp", "/dev/shm"}

// mounts gives the process a mount namespace in which the hidden directories are empty, but for what it
// needs. Mounts that the node makes later arrive in it.
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
		kept, err := s.keep()
		if err != nil {
			return err
		}
		for _, dir := range hidden(s.Hidden) {
			if slices.ContainsFunc(kept, func(k keptPath) bool { return k.path == dir }) {
				continue
			}
			if err := hide(dir, kept); err != nil {
				return fmt.Errorf("hide %s: %w", dir, err)
			}
		}
		for _, k := range kept {
			_ = unix.Close(k.fd)
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

// keptPath is a file or directory that stays where it is.
type keptPath struct {
	path string // without symbolic links, but for its last part
	fd   int    // O_PATH
	dir  bool
}

// keep opens what the process needs.
func (s *shim) keep() (kept []keptPath, err error) {
	paths := append([]string{s.Dir, filepath.Dir(s.Program)}, s.Programs...)
	for _, tree := range []string{s.Paths.Sysfs, s.Paths.Devfs, s.Paths.Procfs} {
		if tree != "" {
			paths = append(paths, tree) // it may see what it may not open
		}
	}
	for _, pattern := range slices.Concat(s.Needs.Read, s.Needs.Write, s.Needs.Open) {
		files, dirs := s.Needs.matches(pattern)
		paths = slices.Concat(paths, files, dirs)
	}
	if target, err := filepath.EvalSymlinks(s.Program); err == nil {
		paths = append(paths, target)
	}
	for _, path := range paths {
		parent, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			continue // it does not exist
		}
		k := keptPath{path: filepath.Join(parent, filepath.Base(path))}
		if slices.ContainsFunc(kept, func(o keptPath) bool { return o.path == k.path }) {
			continue
		}
		// A link leads to its target, as before.
		if k.fd, err = unix.Open(k.path, unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
			if errors.Is(err, unix.ENOENT) {
				continue
			}
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		var info unix.Stat_t
		if err := unix.Fstat(k.fd, &info); err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		k.dir = info.Mode&unix.S_IFMT == unix.S_IFDIR
		kept = append(kept, k)
	}
	// Outer ones first, so that inner ones are mounted in them.
	slices.SortFunc(kept, func(a, b keptPath) int { return cmp.Compare(a.path, b.path) })
	return kept, nil
}

// hide covers a directory with an empty one, which has what is kept below it.
func hide(dir string, kept []keptPath) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // an outer directory hides it
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("accelmux", dir, "tmpfs", flags, "mode=0755,size=64k"); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	for i, k := range kept {
		rest, below := strings.CutPrefix(k.path, dir+"/")
		// What is in a kept directory is in its mount.
		inner := slices.ContainsFunc(kept[:i], func(o keptPath) bool {
			return o.dir && strings.HasPrefix(o.path, dir+"/") && strings.HasPrefix(k.path, o.path+"/")
		})
		if !below || inner || rest == "" {
			continue
		}
		if err := k.mount(); err != nil {
			return fmt.Errorf("keep %s: %w", k.path, err)
		}
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
		return fmt.Errorf("make it read-only: %w", err)
	}
	return nil
}

// mount makes the path again, with what it was.
func (k keptPath) mount() error {
	defer unix.Umask(unix.Umask(0o022)) // its user must pass through
	if err := os.MkdirAll(filepath.Dir(k.path), 0o755); err != nil {
		return err
	}
	if k.dir {
		if err := os.MkdirAll(k.path, 0o755); err != nil {
			return err
		}
	} else {
		file, err := os.OpenFile(k.path, os.O_CREATE|os.O_RDONLY, 0o444)
		if err != nil {
			return err
		}
		_ = file.Close() // empty
	}
	return unix.Mount(fmt.Sprintf("/proc/self/fd/%d", k.fd), k.path, "", unix.MS_BIND|unix.MS_REC, "")
}

// network gives the process a network namespace without a network. The events of devices arrive in it,
// but for those of network interfaces.
func (s *shim) network() {
	if len(s.Needs.Interfaces) > 0 {
		s.networkErr = errors.New("the agent's namespace, for the events of network interfaces")
	} else if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		s.networkErr = fmt.Errorf("the agent's namespace, since one of its own needs CAP_SYS_ADMIN and that the agent may make namespaces (%w)", err)
	}
}

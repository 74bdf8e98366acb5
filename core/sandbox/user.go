package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// userRights are what the agent needs to start, recognise, reach and end processes of other users.
const userRights = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_CHOWN | 1<<unix.CAP_KILL | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_SYS_PTRACE

// user gives the process a user and a group of its own, and the groups of the device nodes that it opens. If that
// user could not open what it needs, the process keeps the agent's user.
func (s *shim) user() {
	if uid := unix.Geteuid(); s.Container {
		err := error(nil)
		if uid == 0 {
			err = errors.New("root, the user of its own container")
		}
		s.measured(User, fmt.Sprintf("user %d, that of its own container", uid), err)
		return
	}
	detail, err := s.tryUser()
	if err != nil {
		err = fmt.Errorf("user %d, the agent's: %w", unix.Geteuid(), err)
		// Files of an earlier process may be another user's.
		if owned := chown(unix.Geteuid(), s.Own...); owned != nil {
			err = errors.Join(err, owned)
		}
	}
	s.measured(User, detail, err)
}

// tryUser changes the user, if that user can open what the program needs. The detail is for the report.
func (s *shim) tryUser() (detail string, err error) {
	if s.UID == 0 {
		return "", errors.New("sandbox.user is root")
	}
	have, err := permitted()
	if err != nil {
		return "", err
	}
	if lacking := set(userRights) &^ have; lacking != 0 {
		return "", fmt.Errorf("another one needs %s in the agent", lacking)
	}
	if err := chown(s.UID, append(s.Own, s.Dir)...); err != nil {
		return "", err
	}
	before, err := unix.Getgroups()
	if err != nil {
		return "", fmt.Errorf("read the groups: %w", err)
	}
	groups := s.groups()
	needed, listed := s.needed()
	if err := act(s.UID, groups, s.granted); err != nil {
		return "", err
	}
	if err := s.usable(needed, listed); err != nil {
		return "", errors.Join(err, act(0, before, have), chown(0, s.Dir))
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return "", fmt.Errorf("keep the capabilities: %w", err)
	}
	id := uintptr(s.UID)
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, id, id, id); errno != 0 {
			return "", fmt.Errorf("become user %d: %w", s.UID, errno)
		}
	}
	// Otherwise /proc/self would be root's until the program starts.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil {
		return "", fmt.Errorf("keep /proc/self: %w", err)
	}
	detail = fmt.Sprintf("user %d", s.UID)
	if len(groups) > 0 {
		detail += fmt.Sprintf(", groups %v", groups)
	}
	return detail, nil
}

// act changes the thread's effective user, its groups and its effective capabilities, to try what that user may
// open. With user 0 it changes back.
func act(uid int, groups []int, capabilities set) error {
	setID := func(call uintptr) func() error {
		return func() error {
			const same = ^uintptr(0)
			if _, _, errno := unix.RawSyscall(call, same, uintptr(uid), same); errno != 0 {
				return errno
			}
			return nil
		}
	}
	calls := []func() error{
		func() error { return unix.Setgroups(groups) }, // of the thread alone: the syscall package's is of all threads
		setID(unix.SYS_SETRESGID), setID(unix.SYS_SETRESUID),
	}
	if uid == 0 { // which gives the capabilities back that the other calls need
		slices.Reverse(calls)
	}
	for _, call := range calls {
		if err := call(); err != nil {
			return fmt.Errorf("act as user %d: %w", uid, err)
		}
	}
	have, err := permitted()
	if err != nil {
		return err
	}
	return capset(capabilities&have, have, 0)
}

// groups returns the groups of the device nodes that it opens, for nodes that only their group may read and write.
func (s *shim) groups() (gids []int) {
	for _, pattern := range s.Needs.Open {
		for _, file := range s.found[pattern].files {
			info, err := os.Stat(file)
			if err != nil {
				continue
			}
			stat, ok := info.Sys().(*syscall.Stat_t)
			if mode := info.Mode().Perm(); ok && stat.Gid != 0 && mode&0o060 == 0o060 && mode&0o006 != 0o006 && !slices.Contains(gids, int(stat.Gid)) {
				gids = append(gids, int(stat.Gid))
			}
		}
	}
	return gids
}

// maxChecked bounds the files of a directory that are checked for a user.
const maxChecked = 4096

// needed returns the files that the program needs, with the mode of access(2) in which it opens them, and the
// directories that it lists. It must be called as the agent's user, who finds them all.
func (s *shim) needed() (needed map[string]uint32, listed []string) {
	needed = map[string]uint32{}
	for mode, patterns := range map[uint32][]string{unix.R_OK: s.Needs.Read, unix.R_OK | unix.W_OK: slices.Concat(s.Needs.Write, s.Needs.Open)} {
		for _, pattern := range patterns {
			for _, file := range s.found[pattern].files {
				needed[file] |= mode
			}
		}
	}
	for _, pattern := range s.Needs.List {
		listed = append(listed, s.found[pattern].files...)
	}
	return needed, listed
}

// usable returns an error if the thread's effective user cannot open what the program needs. Directories below listed
// ones may be closed to it.
func (s *shim) usable(needed map[string]uint32, listed []string) error {
	if err := s.accessible(s.Dir, unix.W_OK); err != nil {
		return err
	}
	if err := s.accessible(s.Program, unix.X_OK|unix.R_OK); err != nil {
		return err
	}
	for _, dir := range listed {
		if err := s.accessible(dir, unix.R_OK); err != nil {
			return err
		}
	}
	for _, file := range slices.Sorted(maps.Keys(needed)) {
		if err := s.accessibleBelow(file, needed[file]); err != nil {
			return err
		}
	}
	return nil
}

// accessible returns an error if the effective user may not open a file that exists.
func (s *shim) accessible(path string, mode uint32) error {
	info, err := os.Stat(path)
	if err == nil {
		if info.IsDir() {
			mode |= unix.X_OK
		}
		err = unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EROFS) {
		return nil
	}
	return fmt.Errorf("user %d may not open %s, which it needs (%w)", s.UID, path, err)
}

// accessibleBelow is accessible for a file, or for a directory and up to maxChecked files in it. Of /proc, /sys and
// the system's libraries it checks only the directory: many files there are for root alone, and not needed.
func (s *shim) accessibleBelow(path string, mode uint32) error {
	if err := s.accessible(path, mode); err != nil {
		return err
	}
	if within(path, append([]string{"/proc", "/sys", s.Paths.Procfs, s.Paths.Sysfs}, baseRead...)...) {
		return nil
	}
	checked := 0
	return filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if checked++; checked > maxChecked {
			return fs.SkipAll
		}
		if err == nil && entry.Type()&(fs.ModeSymlink|fs.ModeSocket) == 0 {
			err = s.accessible(path, mode)
		}
		return err
	})
}

// chown gives directories, with all in them, to a user and the group of the same number. It never leaves them,
// whatever a process writes to them meanwhile. A directory that does not exist is no error.
func chown(uid int, dirs ...string) error {
	for _, dir := range dirs {
		if err := chownTree(uid, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("give %s to user %d: %w", dir, uid, err)
		}
	}
	return nil
}

func chownTree(uid int, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != uid {
			err = root.Lchown(path, uid, uid)
		}
		return err
	})
}

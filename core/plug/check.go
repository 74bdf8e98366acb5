package plug

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// mark identifies a version of a file. It includes the change time, which every write,
// rename and change of mode updates, and which no program can set.
type mark struct {
	dev, ino        uint64
	size            int64
	mtime, ctime    syscall.Timespec
	mode, uid       uint32
	dirMode, dirUID uint32
}

// markOf returns the mark of a file; the zero mark if it does not exist.
func markOf(path string) mark {
	var file, dir syscall.Stat_t
	if syscall.Stat(path, &file) != nil {
		return mark{}
	}
	m := markOfStat(&file)
	if syscall.Stat(filepath.Dir(path), &dir) == nil {
		m.dirMode, m.dirUID = dir.Mode, dir.Uid
	}
	return m
}

func markOfStat(file *syscall.Stat_t) mark {
	return mark{dev: file.Dev, ino: file.Ino, size: file.Size, mtime: file.Mtim, ctime: file.Ctim, mode: file.Mode, uid: file.Uid}
}

// markFrom returns the mark of an open file, without those of its directory.
func markFrom(info fs.FileInfo) mark {
	if file, ok := info.Sys().(*syscall.Stat_t); ok {
		return markOfStat(file)
	}
	return mark{}
}

// sameFile reports whether two marks are of one version of a file, whatever its mode.
func (m mark) sameFile(o mark) bool {
	return m.dev == o.dev && m.ino == o.ino && m.size == o.size && m.mtime == o.mtime
}

// findProgram finds a backend's program and checks that only root and this process's user
// can write it. Every error includes what to do.
func findProgram(dir, command string) (*Program, error) {
	if command == "" || command != filepath.Base(command) || command == "." || command == ".." {
		return nil, fmt.Errorf("the command %q is not a plain file name: give the name of a program in %s", command, dir)
	}
	name := filepath.Join(dir, command)
	path, err := filepath.EvalSymlinks(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the program %s does not exist: install it, or change command of this backend", name)
	}
	if err != nil {
		return nil, fmt.Errorf("the program %s cannot be reached: %w", name, err)
	}
	p := &Program{Name: name, Path: path, mark: markOf(path)}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the program %s cannot be read: %w", path, err)
	}
	if err := checkFile(path, info); err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, fmt.Errorf("the directory %s cannot be reached: %w", dir, err)
	}
	for _, dir := range []string{filepath.Dir(path), real} {
		if err := checkDir(dir); err != nil {
			return nil, err
		}
	}
	for _, dir := range []string{filepath.Dir(path), real, dir} {
		if err := checkAbove(dir); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func checkFile(path string, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return fmt.Errorf("%s is a directory, not a program", path)
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file but %s", path, mode.Type())
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("the program %s may be written by its group or others (mode %04o): run chmod go-w %s", path, mode.Perm(), path)
	}
	if err := checkOwner("program", path, info); err != nil {
		return err
	}
	if unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS) != nil || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("the program %s is not executable for user %d (mode %04o): run chmod a+x %s", path, os.Geteuid(), info.Mode().Perm(), path)
	}
	return nil
}

func checkOwner(what, path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid == 0 || int(stat.Uid) == os.Geteuid() {
		return nil
	}
	return fmt.Errorf("the %s %s belongs to user %d, who could replace programs that run with the agent's rights: it must belong to root or to user %d",
		what, path, stat.Uid, os.Geteuid())
}

// checkDir checks that only root and this process's user can exchange the files in a
// directory.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("the directory %s cannot be read: %w", dir, err)
	}
	if mode := info.Mode(); mode.Perm()&0o022 != 0 {
		return fmt.Errorf("the directory %s may be written by its group or others (mode %04o), who could exchange the programs in it: run chmod go-w %s", dir, mode.Perm(), dir)
	}
	return checkOwner("directory", dir, info)
}

// checkAbove checks that only root and this process's user can exchange a directory or one
// above it. A directory that others can write is accepted if it is sticky, as /tmp is; one
// that its group can write, if the group is root's or this process's.
func checkAbove(dir string) error {
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("the directory %s cannot be read: %w", at, err)
		}
		if err := checkOwner("directory", at, info); err != nil {
			return err
		}
		mode, group := info.Mode(), 0
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			group = int(stat.Gid)
		}
		who, bits := "", ""
		switch {
		case mode&fs.ModeSticky != 0:
		case mode.Perm()&0o002 != 0:
			who, bits = "everybody", "go-w"
		case mode.Perm()&0o020 != 0 && group != 0 && group != os.Getegid():
			who, bits = fmt.Sprintf("group %d", group), "g-w"
		}
		if who != "" {
			return fmt.Errorf("the directory %s may be written by %s (mode %04o), who could exchange %s: run chmod %s %s", at, who, mode.Perm(), dir, bits, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

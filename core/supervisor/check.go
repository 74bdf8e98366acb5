package supervisor

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// program is a backend's program file that passed the checks.
type program struct {
	// name is the path in the backend directory, path what it resolves to.
	name, path string
	mark       mark
	// file is the open file from which a pinned program is executed; nil if it is not
	// pinned.
	file *os.File
}

// close closes the file. A process that was started from it keeps its own descriptor.
func (p *program) close() {
	if p.file != nil {
		_ = p.file.Close() // read only: nothing to lose
	}
}

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
	m := mark{dev: file.Dev, ino: file.Ino, size: file.Size, mtime: file.Mtim, ctime: file.Ctim, mode: file.Mode, uid: file.Uid}
	if syscall.Stat(filepath.Dir(path), &dir) == nil {
		m.dirMode, m.dirUID = dir.Mode, dir.Uid
	}
	return m
}

// checkProgram finds a backend's program and checks that only root and this process's user
// can write it. Every error includes what to do.
func checkProgram(dir, command string) (*program, error) {
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
	p := &program{name: name, path: path, mark: markOf(path)}
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

// unchanged reports whether the file is still the one that was checked. After the start it
// confirms that the checked file runs: replacing and restoring the file would have updated
// its change time, and a program that is being executed cannot be written.
func (p *program) unchanged() bool { return markOf(p.path) == p.mark }

// replaced returns the problem of a running program whose next start would use another
// file; "" if there is none. A changed mode or an added link is no other file.
func (p *program) replaced() string {
	path, err := filepath.EvalSymlinks(p.name)
	if err != nil {
		return fmt.Sprintf("its program %s is missing or cannot be reached: the process keeps running, but could not be restarted; install the program again", p.name)
	}
	now := markOf(path)
	if now.dev == p.mark.dev && now.ino == p.mark.ino && now.size == p.mark.size && now.mtime == p.mark.mtime {
		return ""
	}
	return fmt.Sprintf("its program %s was replaced: the process of the old program keeps running; restart the agent to start the new program", p.name)
}

// pinned checks that the program has the checksum; "" accepts any. It keeps the file open:
// the file whose checksum was compared must be executed, even if the path leads to another
// one by then. The caller must call close.
func (p *program) pinned(checksum string) error {
	if checksum == "" {
		return nil
	}
	file, err := os.Open(p.path)
	if err != nil {
		return fmt.Errorf("the checksum of the program %s cannot be compared: %w", p.path, err)
	}
	got, err := checksumOf(file)
	if err != nil {
		return errors.Join(fmt.Errorf("the checksum of the program %s cannot be compared: %w", p.path, err), file.Close())
	}
	if got != checksum {
		return errors.Join(fmt.Errorf("the program %s has the checksum %s, but the configuration pins %s: install the pinned program, or change checksum of this backend",
			p.path, got, checksum), file.Close())
	}
	p.file = file
	return nil
}

// checksum returns the checksum of the program's file, as pinned compares it.
func (p *program) checksum() (sum string, err error) {
	file := p.file
	if file == nil {
		if file, err = os.Open(p.path); err != nil {
			return "", fmt.Errorf("read the program: %w", err)
		}
		defer func() { _ = file.Close() }() // read only: nothing to lose
	}
	if sum, err = checksumOf(file); err != nil {
		return "", fmt.Errorf("read the program %s: %w", p.path, err)
	}
	return sum, nil
}

func checksumOf(file *os.File) (string, error) {
	sum := sha256.New()
	// From its start, wherever it was read before.
	if _, err := io.Copy(sum, io.NewSectionReader(file, 0, math.MaxInt64)); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
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

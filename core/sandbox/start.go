package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Sandbox describes how a program is started.
type Sandbox struct {
	Policy Policy
	// Given is what the program gets beyond its own files, with the host's paths.
	Given Needs
	// Paths are the places of the host's trees.
	Paths Paths
	// Dir is the directory of the program's socket. It is writable.
	Dir string
	// Programs are the directories of the program and of what belongs to it. They are readable.
	Programs []string
	// Launcher is the socket of the launcher that starts the program in another container; "" starts it here.
	Launcher string `json:"-"`
	// Checksum and ManifestChecksum are for a launcher: its program and manifest must have them. Pinned: the program is
	// executed from the open file whose checksum was compared.
	Checksum, ManifestChecksum string
	Pinned                     bool
	// UID is the program's user and group, if they can open what it needs; 0 for this process's.
	UID int
	// Own is a directory of this process. Directories below it that Given has in Write are made, and belong to the
	// program's user; so are others whose parent is there.
	Own string
	// Hidden are directories that the program does not see, except for what it is given in them.
	Hidden []string
	// Cgroup is the directory of the program's cgroup; "" for none. NoCgroup is why there is none, or else what the
	// cgroup lacks.
	Cgroup, NoCgroup string
	// Container: the program runs in a container of its own, with that container's user, mounts and cgroup.
	Container bool
	// Settle is how long no further file must appear before [Start.Watch] reports those that did.
	Settle time.Duration
}

// Start is the start of one program in its sandbox.
type Start struct {
	report *os.File // the pipe from the shim; nil in the mode Off
	// messages is what comes from the pipe, had what the program has of the files that Watch is for; set by Wait.
	messages *json.Decoder
	had      existing
	child    []*os.File // the files that the shim inherits, until Wait
	box      Sandbox
}

// The descriptors that the shim inherits.
const (
	planFD = 3 + iota
	reportFD
	programFD
)

// RelayName and shimName are the argv[0] of the processes that have a program started elsewhere and here.
const (
	RelayName = "accelmux-relay"
	shimName  = "accelmux-sandbox"
)

// Elsewhere is the plan of the process that has a program started in another container; see package launcher.
type Elsewhere struct {
	// Launcher is the launcher's socket.
	Launcher string `json:"launcher"`
	// Program is the program's file name.
	Program string `json:"program"`
	// Sandbox is a [Sandbox].
	Sandbox json.RawMessage `json:"sandbox"`
}

// plan is what the shim does.
type plan struct {
	// Program and Args are those of the program.
	Program string   `json:"program"`
	Args    []string `json:"args"`
	// Pinned: the program's open file is programFD; the program has it as descriptor 3.
	Pinned   bool     `json:"pinned,omitempty"`
	Parent   int      `json:"parent"`
	Required bool     `json:"required,omitempty"`
	Needs    Needs    `json:"needs"`
	Dir      string   `json:"dir"`
	Programs []string `json:"programs"`

	Paths    Paths    `json:"paths"`
	UID      int      `json:"uid,omitempty"`
	PIDs     uint64   `json:"pids,omitempty"`
	Own      []string `json:"own,omitempty"`
	Hidden   []string `json:"hidden,omitempty"`
	Cgroup   string   `json:"cgroup,omitempty"`
	NoCgroup string   `json:"noCgroup,omitempty"`

	Container bool `json:"container,omitempty"`
}

// Prepare changes a command so that it starts its program in the sandbox. ExtraFiles has at most the
// program's file. The caller starts the command, and then calls Wait, or Close if that failed.
func (s Sandbox) Prepare(cmd *exec.Cmd) (_ *Start, err error) {
	var p any
	name := shimName
	switch {
	case s.Launcher != "":
		name = RelayName
		box, err := json.Marshal(s)
		if err != nil {
			return nil, fmt.Errorf("the sandbox: %w", err)
		}
		p = Elsewhere{Launcher: s.Launcher, Program: filepath.Base(cmd.Args[0]), Sandbox: box}
	case s.Policy.Mode == Off:
		return &Start{}, nil
	default:
		own, err := s.makeOwn()
		if err != nil {
			return nil, err
		}
		p = plan{
			Program: cmd.Path, Args: cmd.Args, Pinned: len(cmd.ExtraFiles) > 0, Parent: os.Getpid(), Required: s.Policy.Mode == Required,
			Needs: s.Paths.at(s.Given), Dir: s.Dir, Programs: append([]string{filepath.Dir(cmd.Path)}, s.Programs...),
			Paths: s.Paths, UID: s.UID, PIDs: uint64(s.Policy.PIDs), Hidden: s.Hidden, Cgroup: s.Cgroup, NoCgroup: s.NoCgroup, Container: s.Container, Own: own, //nolint:gosec // validated
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("the sandbox: %w", err)
	}
	in, err := memory(text)
	if err != nil {
		return nil, fmt.Errorf("the sandbox: %w", err)
	}
	out, outChild, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the sandbox: make a pipe: %w", err), in.Close())
	}
	started := &Start{report: out, child: []*os.File{in, outChild}, box: s}
	cmd.Path, cmd.Args = "/proc/self/exe", []string{name}
	cmd.ExtraFiles = append([]*os.File{in, outChild}, cmd.ExtraFiles...)
	return started, nil
}

// makeOwn makes and returns the directories below Own that the program writes to, and lets the program's user, if
// that is its own, reach them. It also makes and returns others that the program writes to, where the directory above
// is there: a process can write to no directory that appears after its start.
func (s Sandbox) makeOwn() (dirs []string, err error) {
	own := false
	for _, pattern := range s.Given.Write {
		dir, all := strings.CutSuffix(pattern, "/**")
		if !all || dir == "" || strings.ContainsAny(dir, `*?[\`) {
			continue
		}
		if s.Own == "" || !strings.HasPrefix(dir, s.Own+"/") {
			// What cannot be made is reported as what the process lacks.
			if os.Mkdir(dir, 0o755) == nil && SetMode(dir, 0o755) == nil { //nolint:gosec // others read what the program writes there
				dirs = append(dirs, dir)
			}
			continue
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("the sandbox: make a directory for the backend: %w", err)
		}
		dirs, own = append(dirs, dir), true
	}
	if !own || s.UID == 0 || s.Container {
		return dirs, nil
	}
	if err := os.Chmod(s.Own, 0o711); err != nil {
		return nil, fmt.Errorf("the sandbox: open the backends' directory to their users: %w", err)
	}
	return dirs, nil
}

// SetMode changes the mode of a directory, by a descriptor: another process may put a link in its place at any time.
func SetMode(dir string, mode os.FileMode) error {
	file, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Chmod(mode), file.Close())
}

// memory returns a file in memory with the data, to be read from its start.
func memory(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate(shimName, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), shimName)
	if _, err = file.Write(data); err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write a file in memory: %w", err), file.Close())
	}
	return file, nil
}

// Wait returns the report as soon as the program runs, or why it does not; its process ends then. If the program
// could not be executed, the error is the syscall.Errno of execve(2). If the process ends before its program runs,
// for instance because it was killed, the report is empty and the error nil.
func (s *Start) Wait() (Report, error) {
	if s.report == nil {
		return Report{}, nil
	}
	for _, file := range s.child {
		_ = file.Close() // the child has its own
	}
	s.child = nil
	launched := s.box.Launcher != ""
	s.messages = json.NewDecoder(io.LimitReader(s.report, maxReport))
	m, err := read(s.messages, launched)
	if s.had = m.Had; !launched || err != nil {
		_ = s.report.Close()
	}
	return *m.Report, err
}

// Close releases a start whose command could not be started.
func (s *Start) Close() {
	for _, file := range append(s.child, s.report) {
		if file != nil {
			_ = file.Close()
		}
	}
	s.child = nil
}

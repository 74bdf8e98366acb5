package faults

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/bench/rig"
	"github.com/accelmux/accelmux/test/hostile"
)

// program is the hostile backend's, in the directory of backends; another build and a link
// to its own are beside it.
const (
	program = "hostilebackend"
	another = program + ".another"
	own     = program + ".own"
)

// deed is what a case has a backend do, or suffer.
type deed struct {
	hostile.Misdeed
	// pinned: the configuration has the checksum of the program.
	pinned bool
	// act is done just before the misdeed begins, and undo when the agent has ended; both
	// get the directory of backends. Nil for nothing.
	act  func(dir string, pid int) error
	undo func(dir string) error
	// fatal: the process dies of it, and the next one is sound.
	fatal bool
	// says is in what status says of the backend then; "" for whatever is no praise.
	says string
}

// deeds are all cases: those that the backend is up to, and those that others do to it.
func deeds() []deed {
	var all []deed
	for _, misdeed := range hostile.All() {
		all = append(all, deed{Misdeed: misdeed})
	}
	return append(all,
		deed{Misdeed: hostile.Misdeed{What: "is swapped for another build while it runs, and killed"}, act: swap, undo: swapBack,
			says: "it was killed"},
		deed{Misdeed: hostile.Misdeed{What: "has another checksum than the pinned one at its next start"}, pinned: true, act: swap, undo: swapBack,
			says: "but the configuration pins sha256:"},
		deed{Misdeed: hostile.Misdeed{Name: "many-devices", What: "runs out of memory (RLIMIT_AS)"}, act: limitMemory, fatal: true,
			says: "it exited with status 2"}, // as Go's runtime does
	)
}

// prepare makes the other build, which differs in what follows an ELF file's sections, and
// is the configuration's line that pins the own one.
func prepare(dir string) (pin string, err error) {
	text, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, another), append(text[:len(text):len(text)], "another"...), 0o755); err != nil {
		return "", err
	}
	return fmt.Sprintf("checksum: sha256:%x", sha256.Sum256(text)), nil
}

// swap puts the other build in the place of the program, and has the agent start it.
func swap(dir string, pid int) error {
	path := filepath.Join(dir, program)
	if err := errors.Join(os.Link(path, filepath.Join(dir, own)), os.Link(filepath.Join(dir, another), path+".new"), os.Rename(path+".new", path)); err != nil {
		return err
	}
	return unix.Kill(pid, unix.SIGKILL)
}

func swapBack(dir string) error {
	err := os.Rename(filepath.Join(dir, own), filepath.Join(dir, program))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was not swapped
	}
	return err
}

// limitMemory lets a process have no more addresses than it has.
func limitMemory(_ string, pid int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return err
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[0], 10, 64)
	if err != nil {
		return err
	}
	bytes := pages * uint64(os.Getpagesize())
	return unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: bytes, Max: bytes}, nil)
}

// awaitEnd waits until the process is gone: otherwise nothing was measured.
func awaitEnd(pid int) error {
	if gone, _ := rig.Poll(rig.Patience, time.Millisecond, func() (bool, error) { return unix.Kill(pid, 0) != nil, nil }); !gone {
		return fmt.Errorf("process %d does not die of it", pid)
	}
	return nil
}

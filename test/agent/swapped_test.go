package agent

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/supervisor"
)

const (
	// swapped is the resource of the backend whose program changes.
	swapped = "example.com/swapped"
	// swapNode has a backend whose program changes beside one whose does not. CHECKSUM is
	// the test's.
	swapNode = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - {name: swap, command: swap, CHECKSUMrecovery: {delay: 0s}, allow: {declared: accept}, settings: {count: 3}}
      - {name: other, command: other, allow: {declared: accept}, settings: {count: 2}}
    resources:
      - {name: example.com/swapped, backend: swap}
      - {name: example.com/gpu, backend: other}
`
)

// swap is such a node, with programs of its own.
type swap struct {
	*process
	dir   string
	mock  []byte
	other int // the other backend's process
}

func startSwap(t *testing.T, config string) *swap {
	t.Helper()
	n := newNode(t)
	mock, err := os.ReadFile(filepath.Join(built.Dir(t), "accelmux-backend-mock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &swap{dir: n.path("programs"), mock: mock}
	s.process = &process{&program{node: n}}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.install("swap", "")
	s.install("other", "")
	n.startKubelet()
	n.configure(config)
	s.process = n.startProcess(order{Programs: s.dir})
	n.wantCounts(gpu, 2, 2)
	n.wantCounts(swapped, 3, 3)
	s.other = s.backend("other").PID
	n.mark(gpu)
	return s
}

// build is the mock's program in another build: what follows an ELF file's sections is
// nothing to the kernel.
func (s *swap) build(mark string) []byte { return append(append([]byte{}, s.mock...), mark...) }

// install puts a build in the place of a program, as a package manager does, and returns
// its file's number.
func (s *swap) install(name, mark string) uint64 {
	s.Helper()
	path := filepath.Join(s.dir, name)
	temporary := path + ".new"
	if err := errors.Join(os.WriteFile(temporary, s.build(mark), 0o755), os.Rename(temporary, path)); err != nil {
		s.Fatal(err)
	}
	return s.number(path)
}

func (s *swap) number(path string) uint64 {
	s.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		s.Fatal(err)
	}
	return stat.Ino
}

// pin is the line of the configuration for a build.
func (s *swap) pin(mark string) string {
	return fmt.Sprintf(`checksum: "sha256:%x", `, sha256.Sum256(s.build(mark)))
}

// says waits until status says all that in a sentence about the backend.
func (s *swap) says(parts ...string) {
	s.Helper()
	s.eventually(fmt.Sprintf("status says %q", parts), func() bool {
		for _, line := range s.problems() {
			all := strings.HasPrefix(line, "swap ")
			for _, part := range parts {
				all = all && strings.Contains(line, part)
			}
			if all {
				return true
			}
		}
		return false
	})
}

func (s *swap) kill() {
	s.Helper()
	if err := unix.Kill(s.backend("swap").PID, unix.SIGKILL); err != nil {
		s.Fatal(err)
	}
}

// runs waits until the backend is sound and its process is another one, of that file.
func (s *swap) runs(earlier int, file uint64) {
	s.Helper()
	s.eventually("the new program runs", func() bool {
		b := s.backend("swap")
		return b.State == string(supervisor.Running) && b.PID != earlier && len(s.report().Problems) == 0
	})
	if got := s.number(fmt.Sprintf("/proc/%d/exe", s.backend("swap").PID)); got != file {
		s.Errorf("the backend's process is of file %d, want %d", got, file)
	}
	s.wantCounts(swapped, 3, 3)
}

// wantOthers fails if the other backend noticed anything.
func (s *swap) wantOthers() {
	s.Helper()
	if now := s.backend("other"); now.PID != s.other || now.Restarts != 0 {
		s.Errorf("the other backend's process was %d, and it is %+v", s.other, now)
	}
	s.wantNoDip(gpu, 2)
}

// Verifies that a backend whose program is swapped while it runs goes on, that status
// says so, and that its next process is the new one.
func TestSwappedProgram(t *testing.T) {
	t.Parallel()
	s := startSwap(t, strings.ReplaceAll(swapNode, "CHECKSUM", ""))
	before := s.backend("swap").PID
	s.mark(swapped)
	file := s.install("swap", "the next release")
	s.says("was replaced: the process of the old program keeps running", "restart the agent")
	if now := s.backend("swap"); now.PID != before || now.State != string(supervisor.Running) {
		t.Errorf("the process was %d, and the backend is %+v", before, now)
	}
	s.wantNoDip(swapped, 3)
	s.kill()
	s.runs(before, file)

	if err := os.Remove(filepath.Join(s.dir, "swap")); err != nil {
		t.Fatal(err)
	}
	s.says("is missing or cannot be reached: the process keeps running, but could not be restarted")
	s.wantOthers()
}

// Verifies that a backend whose program has another checksum than the pinned one is not
// started, neither after a swap nor by a changed configuration, that status says which
// it has and which it should have, that the others go on, and that it runs again when
// the file is put right, or the pin.
func TestPinnedProgramOnANode(t *testing.T) {
	t.Parallel()
	s := startSwap(t, strings.ReplaceAll(swapNode, "CHECKSUM", ""))
	before := s.backend("swap").PID
	sum := func(mark string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(s.build(mark))) }
	configure := func(mark string) { s.configure(strings.ReplaceAll(swapNode, "CHECKSUM", s.pin(mark))) }

	// Pinned to what it is: a process whose program was compared.
	configure("")
	s.runs(before, s.number(filepath.Join(s.dir, "swap")))

	// Swapped: it goes on, but cannot come back.
	before = s.backend("swap").PID
	s.install("swap", "an intruder")
	s.says("was replaced: ")
	if now := s.backend("swap").PID; now != before {
		t.Errorf("the process was %d and is %d", before, now)
	}
	s.kill()
	refused := []string{"has the checksum " + sum("an intruder"), "but the configuration pins " + sum(""), "install the pinned program, or change checksum"}
	s.says(refused...)
	s.eventually("the backend is unavailable", func() bool {
		now := s.backend("swap")
		return now.State == string(supervisor.Unavailable) && now.PID == 0
	})
	s.wantOthers()

	// The file put right, and then the pin.
	s.runs(before, s.install("swap", ""))
	before = s.backend("swap").PID
	file := s.install("swap", "the next release")
	s.kill()
	s.says("has the checksum "+sum("the next release"), "but the configuration pins "+sum(""))
	configure("the next release")
	s.runs(before, file)
	s.wantOthers()
}

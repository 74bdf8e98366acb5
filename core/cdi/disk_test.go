package cdi_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	cdilib "tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/test/patience"
)

// faulty is a disk that fails at one step of the write of one file.
type faulty struct {
	op   checkpoint.Op
	file string
}

func (f *faulty) writer() checkpoint.Writer {
	return checkpoint.Writer{Before: func(op checkpoint.Op, path string) error {
		if op == f.op && strings.HasSuffix(path, f.file) {
			return errDisk
		}
		return nil
	}}
}

// Verifies that a failed write costs the new names alone: those on disk stay, other files are
// written, and the next Publish tries again.
func TestFailedWriteCostsOnlyTheNewNames(t *testing.T) {
	for _, op := range []checkpoint.Op{checkpoint.OpCreate, checkpoint.OpWrite, checkpoint.OpRename} {
		t.Run(string(op), func(t *testing.T) {
			dir := t.TempDir()
			disk := &faulty{file: gpuFile}
			now := time.Unix(1000, 0)
			s := openWith(t, cdi.Options{Dir: dir, Disk: disk.writer(), Now: func() time.Time { return now }})
			s.Publish([]*inventory.Device{device("old", "1"), device("changed", "1")}, nobody)
			disk.op = op
			other := device("other", "1")
			other.Class = "nic"
			devices := []*inventory.Device{device("old", "1"), device("changed", "2"), device("new", "1"), other}
			names := s.Publish(devices, nobody)
			if got := env(t, dir, qualified(t, names, "old"), qualified(t, names, "other")); got != "VALUE=1" {
				t.Errorf("env %q", got)
			}
			for _, id := range []string{"changed", "new"} {
				if _, err := names.Qualified(key(id)); !errors.Is(err, errDisk) {
					t.Errorf("%s: error %v, want the disk's", id, err)
				}
			}
			first := names.RetryAt()
			if pause := first.Sub(now); pause < time.Second || pause > 2*time.Second {
				t.Errorf("first retry after %v", pause)
			}
			for range 10 { // whatever is published meanwhile
				if again := s.Publish(devices, nobody).RetryAt(); again != first {
					t.Fatalf("the retry is delayed by %v", again.Sub(first))
				}
			}
			now = first
			if pause := s.Publish(devices, nobody).RetryAt().Sub(now); pause < 2*time.Second || pause > 4*time.Second {
				t.Errorf("second retry after %v", pause)
			}
			disk.op = ""
			names = s.Publish(devices, nobody)
			if got := env(t, dir, qualified(t, names, "changed")); got != "VALUE=2" {
				t.Errorf("env %q", got)
			}
			if !names.RetryAt().IsZero() {
				t.Error("a retry is wanted though all is written")
			}
			if diff := cmp.Diff([]string{gpuFile, "accelmux-mock-nic.json"}, files(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// Verifies that a directory in which nothing can be written or removed costs no name that is
// on disk, also after a restart, and if another version wrote the file.
func TestReadOnlyDirectoryKeepsWhatIsThere(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, dir string){
		"as we write it": func(*testing.T, string) {},
		"as another version wrote it": func(t *testing.T, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, gpuFile))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, gpuFile, strings.Join(strings.Fields(string(text)), ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir).Publish([]*inventory.Device{device("a", "1"), device("b", "1")}, nobody)
			before(t, dir)
			s := openWith(t, cdi.Options{Dir: dir, Disk: checkpoint.Writer{Before: func(checkpoint.Op, string) error { return errDisk }}})
			for round, devices := range [][]*inventory.Device{nil, {device("a", "1"), device("b", "1")}, {device("b", "1")}, nil, {device("a", "1")}} {
				names := s.Publish(devices, nobody)
				for _, d := range devices {
					if got := env(t, dir, qualified(t, names, d.ID)); got != "VALUE=1" {
						t.Errorf("round %d: env of %s is %q", round, d.ID, got)
					}
				}
			}
			if _, err := s.Publish([]*inventory.Device{device("new", "1")}, nobody).Qualified(key("new")); !errors.Is(err, errDisk) {
				t.Errorf("a new device: %v, want the disk's error", err)
			}
		})
	}
}

// Verifies that Publish restores a file that was removed or changed, held names included.
func TestTamperedDirectoryIsRestored(t *testing.T) {
	for name, tamper := range map[string]func(t *testing.T, dir string) error{
		"directory gone": func(_ *testing.T, dir string) error { return os.RemoveAll(dir) },
		"file gone":      func(_ *testing.T, dir string) error { return os.Remove(filepath.Join(dir, gpuFile)) },
		"unreadable":     func(_ *testing.T, dir string) error { return os.Chmod(filepath.Join(dir, gpuFile), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cdi")
			s := open(t, dir)
			devices := []*inventory.Device{device("a", "2"), device("b", "1")}
			plain := qualified(t, s.Publish([]*inventory.Device{device("a", "1")}, nobody), "a")
			derived := qualified(t, s.Publish(devices, holding("a")), "a")
			if err := tamper(t, dir); err != nil {
				t.Fatal(err)
			}
			names := s.Publish(devices, holding("a"))
			if got := qualified(t, names, "a"); got != derived {
				t.Errorf("name %s, want %s", got, derived)
			}
			if got := env(t, dir, plain) + " " + env(t, dir, derived) + " " + env(t, dir, qualified(t, names, "b")); got != "VALUE=1 VALUE=2 VALUE=1" {
				t.Errorf("env %q", got)
			}
			if got := stat(t, filepath.Join(dir, gpuFile)).Mode().Perm(); got != 0o644 {
				t.Errorf("mode %o", got)
			}
			// A restart knows to which device the names belong.
			s = open(t, dir)
			s.Publish([]*inventory.Device{device("b", "1")}, holding("a"))
			if got := env(t, dir, derived); got != "VALUE=2" {
				t.Errorf("env %q after a restart", got)
			}
		})
	}
}

// Verifies that a damaged spec of an earlier run, such as a power cut leaves, is refused by
// runtimes, is moved aside and is written again.
func TestDamagedSpecOfAnEarlierRun(t *testing.T) {
	for name, damage := range map[string]func(content []byte) []byte{
		"empty":     func([]byte) []byte { return nil },
		"cut short": func(c []byte) []byte { return c[:len(c)/2] },
		"zeroes":    func(c []byte) []byte { return append(c[:len(c)/2:len(c)/2], make([]byte, len(c)/2)...) },
		"no devices": func([]byte) []byte {
			return []byte(`{"cdiVersion":"0.5.0","kind":"mock.accelmux.io/gpu","devices":[]}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			s.Publish([]*inventory.Device{device("a", "1")}, nobody)
			content, err := os.ReadFile(filepath.Join(dir, gpuFile))
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, dir, gpuFile, string(damage(content)))
			if _, err := cdilib.ReadSpec(filepath.Join(dir, gpuFile), 0); err == nil {
				t.Error("a runtime accepts the damaged spec")
			}
			s = open(t, dir)
			if notes := s.Notes(); len(notes) != 1 || !strings.Contains(notes[0], gpuFile+".corrupt") {
				t.Errorf("notes %q", notes)
			}
			names := s.Publish([]*inventory.Device{device("a", "1")}, everyone)
			if got := env(t, dir, qualified(t, names, "a")); got != "VALUE=1" {
				t.Errorf("env %q", got)
			}
		})
	}
}

// Verifies that a foreign file that defines our device is reported: runtimes ignore the device.
func TestConflictIsReported(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	theirs := `{"cdiVersion":"0.5.0","kind":"mock.accelmux.io/gpu","devices":[{"name":"a","containerEdits":{"env":["X=1"]}}]}`
	writeFile(t, dir, "accelmux-mine.json", theirs)
	writeFile(t, dir, "broken.json", `{"kind":"mock.accelmux.io/gpu"`)
	writeFile(t, dir, "ignored.txt", theirs)
	if err := os.Mkdir(filepath.Join(dir, "folder.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	devices := []*inventory.Device{device("a", "1"), device("b", "1")}
	for range 2 {
		names := s.Publish(devices, nobody)
		if _, err := names.Qualified(key("a")); err == nil || !strings.Contains(err.Error(), "accelmux-mine.json") {
			t.Errorf("error %v, want one that names the file", err)
		}
		if _, err := names.Qualified(key("b")); err != nil {
			t.Error(err)
		}
	}
	// Changed in place, without the directory changing.
	writeFile(t, dir, "accelmux-mine.json", strings.ReplaceAll(theirs, `"a"`, `"b"`))
	names := s.Publish(devices, nobody)
	if _, err := names.Qualified(key("a")); err != nil {
		t.Error(err)
	}
	if _, err := names.Qualified(key("b")); err == nil {
		t.Error("no error")
	}
	if err := os.Remove(filepath.Join(dir, "accelmux-mine.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Publish(devices, nobody).Qualified(key("b")); err != nil {
		t.Error(err)
	}
}

// Verifies that Open refuses a directory that cannot be written to.
func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", filepath.Join(file, "cdi")} {
		if _, err := cdi.Open(cdi.Options{Dir: dir}); err == nil {
			t.Errorf("%q was accepted", dir)
		}
	}
}

// unrelated is a valid spec of another owner.
const unrelated = `{"cdiVersion":"0.3.0","kind":"v.com/c","devices":[{"name":"d","containerEdits":{"env":["X=1"]}}]}`

// Verifies that Run reports changes by others, and none by the store itself.
func TestRunReportsChanges(t *testing.T) {
	for name, timing := range map[string]cdi.Timing{
		"by the kernel":   {Poll: time.Hour},
		"at the interval": {Poll: 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "cdi")
			files := filewatch.New(slog.New(slog.DiscardHandler))
			s := openWith(t, cdi.Options{Dir: dir, Files: files, Timing: timing})
			devices := []*inventory.Device{device("a", "1")}
			s.Publish(devices, nobody)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.Run(ctx) }()
			defer func() {
				cancel()
				if err := errors.Join(<-done, files.Close()); err != nil {
					t.Error(err)
				}
			}()
			for what, change := range map[string]func() error{
				"our file removed": func() error { return os.Remove(filepath.Join(dir, gpuFile)) },
				"a foreign file":   func() error { return os.WriteFile(filepath.Join(dir, "x.json"), []byte(unrelated), 0o600) },
			} {
				// The watch may begin later than the change; then the check at the start finds it.
				changed := s.Changed()
				if err := change(); err != nil {
					t.Fatal(err)
				}
				select {
				case <-changed:
				case <-time.After(patience.Long):
					t.Fatalf("%s: not reported", what)
				}
				names := s.Publish(devices, nobody)
				if got := env(t, dir, qualified(t, names, "a")); got != "VALUE=1" {
					t.Errorf("env %q", got)
				}
				if err := os.RemoveAll(filepath.Join(dir, "x.json")); err != nil {
					t.Fatal(err)
				}
				s.Publish(devices, nobody)
				select {
				case <-changed: // the removal may have been seen before Publish
				default:
				}
			}
		})
	}
}

package cdi_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/checkpoint"
	"github.com/accelmux/accelmux/core/inventory"
)

// twoNames leaves device a with a plain and a derived name.
func twoNames(t *testing.T, dir string) {
	t.Helper()
	s := open(t, dir)
	s.Publish([]*inventory.Device{device("a", "1")}, nobody)
	s.Publish([]*inventory.Device{device("a", "2")}, everyone)
	if got := len(s.Definitions()); got != 2 {
		t.Fatalf("%d definitions, want 2", got)
	}
}

// sideChanges are what makes the side file forget something. The plain name of a
// device whose ID CDI does not allow, such as "b-", is always in the side file.
var sideChanges = map[string]func(s *cdi.Store) error{
	"derived name goes":    func(s *cdi.Store) error { return publishOne(s, "a", "1") },
	"device goes":          func(s *cdi.Store) error { return publishOne(s, "b", "1") },
	"another device comes": func(s *cdi.Store) error { return publishOne(s, "b-", "1") },
}

// publishOne publishes a device that nobody holds, and no other.
func publishOne(s *cdi.Store, id, value string) error {
	_, err := s.Publish([]*inventory.Device{device(id, value)}, nobody).Qualified(key(id))
	return err
}

// Stopped before any step of any write: the next run knows of every name on disk
// which device it belongs to.
func TestStoppedAtAnyStep(t *testing.T) {
	for name, change := range sideChanges {
		t.Run(name, func(t *testing.T) {
			stopped := true
			for step := 1; stopped; step++ {
				dir := t.TempDir()
				twoNames(t, dir)
				steps := 0
				stopped = false
				s := openWith(t, cdi.Options{Dir: dir, Disk: checkpoint.Writer{Before: func(checkpoint.Op, string) error {
					if steps++; steps >= step {
						stopped = true
						return errDisk
					}
					return nil
				}}})
				err := change(s)
				if err != nil && !stopped {
					t.Fatal(err)
				}
				if diff := cmp.Diff(s.Definitions(), open(t, dir).Definitions()); diff != "" {
					t.Errorf("stopped at step %d (%v): definitions (-before +after the restart):\n%s", step, err, diff)
				}
				if step > 100 {
					t.Fatal("the change never goes through")
				}
			}
		})
	}
}

// After a change the side file forgets what the spec does not say any more, so
// that nothing comes back from it if the spec is lost; a change that failed at
// some step, too, once it is tried again.
func TestSideFileForgets(t *testing.T) {
	for name, change := range sideChanges {
		t.Run(name, func(t *testing.T) {
			failed := true
			for step := 1; failed; step++ {
				dir := t.TempDir()
				twoNames(t, dir)
				steps := 0
				failed = false
				s := openWith(t, cdi.Options{Dir: dir, Disk: checkpoint.Writer{Before: func(checkpoint.Op, string) error {
					if steps++; steps == step {
						failed = true
						return errDisk
					}
					return nil
				}}})
				first := change(s)
				if err := change(s); err != nil {
					t.Fatalf("failed at step %d (%v), and again: %v", step, first, err)
				}
				said := map[string]cdi.Definition{}
				for _, d := range s.Definitions() {
					said[d.Name] = d
				}
				if err := os.Remove(filepath.Join(dir, gpuFile)); err != nil {
					t.Fatal(err)
				}
				for _, d := range open(t, dir).Definitions() {
					if diff := cmp.Diff(said[d.Name], d); diff != "" {
						t.Errorf("failed at step %d (%v): %s comes back (-was +is):\n%s", step, first, d.Name, diff)
					}
				}
				if step > 100 {
					t.Fatal("the change never goes through")
				}
			}
		})
	}
}

// If the spec is lost before the side file forgot what it said earlier, what it
// said last counts.
func TestSpecLostBeforeTheSideFileForgets(t *testing.T) {
	dir := t.TempDir()
	define(t, open(t, dir), unitsOf("1", "a"))
	writes := 0
	s := openWith(t, cdi.Options{Dir: dir, Disk: checkpoint.Writer{Before: func(op checkpoint.Op, path string) error {
		if op == checkpoint.OpCreate && filepath.Ext(path) == ".state" {
			if writes++; writes == 2 {
				return errDisk
			}
		}
		return nil
	}}})
	if err := s.Define(unitsOf("2", "a"), alive()); !errors.Is(err, errDisk) {
		t.Fatalf("error %v, want the disk's", err)
	}
	if err := os.Remove(filepath.Join(dir, holderFile)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Definitions(), open(t, dir).Definitions()); diff != "" {
		t.Errorf("definitions (-before +after the restart):\n%s", diff)
	}
}

// A side file that is in place but not durable is written again, even if the
// change that it was for is given up.
func TestSideFileForgetsAChangeThatIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	define(t, open(t, dir), unitsOf("1", "a"))
	disk := &faulty{file: ".state"}
	s := openWith(t, cdi.Options{Dir: dir, Disk: disk.writer()})
	disk.op = checkpoint.OpSyncDir
	if err := s.Define(unitsOf("2", "a"), alive()); !errors.Is(err, checkpoint.ErrNotDurable) {
		t.Fatalf("error %v, want ErrNotDurable", err)
	}
	disk.op = ""
	define(t, s, unitsOf("1", "a"))
	if err := os.Remove(filepath.Join(dir, holderFile)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.Definitions(), open(t, dir).Definitions()); diff != "" {
		t.Errorf("definitions (-before +after the restart):\n%s", diff)
	}
}

// While a spec is in place but not durable, a power cut brings back the one
// before; its names are still explained then, whatever was tried meanwhile.
func TestSpecThatAPowerCutBringsBack(t *testing.T) {
	for name, meanwhile := range map[string]func(t *testing.T, s *cdi.Store, again func() *cdi.Store){
		"nothing": func(*testing.T, *cdi.Store, func() *cdi.Store) {},
		"another change": func(_ *testing.T, s *cdi.Store, _ func() *cdi.Store) {
			_ = publishOne(s, "b-", "2")
		},
		"a restart and another change": func(_ *testing.T, _ *cdi.Store, again func() *cdi.Store) {
			_ = publishOne(again(), "b-", "2")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			twoNames(t, dir)
			disk := &faulty{file: gpuFile}
			again := func() *cdi.Store { return openWith(t, cdi.Options{Dir: dir, Disk: disk.writer()}) }
			s := again()
			s.Publish([]*inventory.Device{device("a", "2")}, everyone)
			before := s.Definitions()
			spec, err := os.ReadFile(filepath.Join(dir, gpuFile))
			if err != nil {
				t.Fatal(err)
			}
			disk.op = checkpoint.OpSyncDir
			if err := publishOne(s, "b-", "1"); !errors.Is(err, checkpoint.ErrNotDurable) {
				t.Fatalf("error %v, want ErrNotDurable", err)
			}
			meanwhile(t, s, again)
			writeFile(t, dir, gpuFile, string(spec))
			if diff := cmp.Diff(before, open(t, dir).Definitions()); diff != "" {
				t.Errorf("definitions (-before +after the power cut):\n%s", diff)
			}
		})
	}
}

// A name that is on disk but not durable is given out by no run, until it is.
func TestNameThatIsNotDurableAfterARestart(t *testing.T) {
	dir := t.TempDir()
	disk := &faulty{op: checkpoint.OpSyncDir, file: gpuFile}
	for run := range 2 {
		s := openWith(t, cdi.Options{Dir: dir, Disk: disk.writer()})
		if err := publishOne(s, "a", "1"); !errors.Is(err, checkpoint.ErrNotDurable) {
			t.Errorf("run %d: error %v, want ErrNotDurable", run, err)
		}
	}
	disk.op = ""
	if err := publishOne(openWith(t, cdi.Options{Dir: dir, Disk: disk.writer()}), "a", "1"); err != nil {
		t.Error(err)
	}
}

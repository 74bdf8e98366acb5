package edits

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// mounted reports whether a GPU comes with a file of the driver.
func mounted(t *testing.T, set *Set, uuid, path string) bool {
	t.Helper()
	e, err := set.Of(uuid)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range e.GetMounts() {
		if m.GetContainerPath() == path {
			return true
		}
	}
	return false
}

// The driver's files are not searched each time: a missing file is noticed at once, an
// additional one after ten minutes, and all files of another version at once.
func TestDriverFilesAreKept(t *testing.T) {
	const late = "/usr/lib/x86_64-linux-gnu/libnvidia-opticalflow.so." + version
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, "")
		m := h.maker(h.cdi(""))
		if err := m.Make(snapshot()).Err(); err != nil {
			t.Fatal(err)
		}
		h.file("", late[1:])
		if mounted(t, m.Make(snapshot()), uuidA, late) {
			t.Error("the files were looked for again at once")
		}
		<-time.After(filesLife)
		if !mounted(t, m.Make(snapshot()), uuidA, late) {
			t.Error("a file that came is not found after the files' time is over")
		}
		h.remove(late[1:])
		if mounted(t, m.Make(snapshot()), uuidA, late) {
			t.Error("a file that is gone is still given to containers")
		}
		h.remove("usr/lib/x86_64-linux-gnu/libcuda.so." + version)
		if m.Make(snapshot()).Err() == nil {
			t.Error("a driver without its library is no error")
		}
		h.driver("")
		newer := *snapshot()
		if err := m.Make(&newer).Err(); err != nil {
			t.Errorf("the library is back: %v", err)
		}
		newer.DriverVersion = "580.65.06"
		if m.Make(&newer).Err() == nil {
			t.Error("the files of a driver before are taken for those of another version")
		}
	})
}

// The check of missing files uses the paths below the driver root, wherever that is.
func TestDriverFilesBelowAnotherRoot(t *testing.T) {
	h := newHost(t, "driver")
	m := h.maker(h.cdi("driver"))
	if err := m.Make(snapshot()).Err(); err != nil {
		t.Fatal(err)
	}
	kept := m.files.Load()
	if kept == nil || !slices.Contains(kept.here, h.path("driver/usr/bin/nvidia-smi")) {
		t.Fatalf("kept files: %+v", kept)
	}
	if err := os.RemoveAll(h.path("driver")); err != nil {
		t.Fatal(err)
	}
	if set := m.Make(&driver.Snapshot{DriverVersion: version, GPUs: snapshot().GPUs}); set.Err() == nil {
		t.Error("a driver root that is gone is no error")
	}
}

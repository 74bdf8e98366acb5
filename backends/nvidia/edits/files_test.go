package edits

import (
	"testing"
	"testing/synctest"
	"time"
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
// additional one after ten minutes, and all files of another version at once. The paths are those
// below the driver root.
func TestDriverFilesAreKept(t *testing.T) {
	const late = "/usr/lib/x86_64-linux-gnu/libnvidia-opticalflow.so." + version
	synctest.Test(t, func(t *testing.T) {
		const root = "driver"
		h := newHost(t, root)
		m := h.maker(h.cdi(root))
		if err := m.Make(snapshot()).Err(); err != nil {
			t.Fatal(err)
		}
		h.file("", root+late)
		if mounted(t, m.Make(snapshot()), uuidA, late) {
			t.Error("the files were looked for again at once")
		}
		<-time.After(filesLife)
		if !mounted(t, m.Make(snapshot()), uuidA, late) {
			t.Error("a file that came is not found after the files' time is over")
		}
		h.Remove(root + late)
		if mounted(t, m.Make(snapshot()), uuidA, late) {
			t.Error("a file that is gone is still given to containers")
		}
		h.Remove(root + "/usr/lib/x86_64-linux-gnu/libcuda.so." + version)
		if m.Make(snapshot()).Err() == nil {
			t.Error("a driver without its library is no error")
		}
		h.driver(root)
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

package cdi_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/takeover"
)

// Verifies that stores of different backends share a directory: none changes the definitions of
// another one, or those that a closed store left for containers; one of the same backend is
// refused.
func TestStoresShareADirectory(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	first.Publish([]*inventory.Device{device("A", "1")}, nobody)
	second, err := cdi.Open(cdi.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Own([]string{"other", backend}); !errors.Is(err, takeover.ErrHeld) ||
		!strings.Contains(err.Error(), "accelmux-"+backend+".lock") {
		t.Fatalf("a second store owns the backend's specs with %v; want that another agent has them", err)
	}
	theirs := device("B", "2")
	theirs.Backend = "other"
	if _, err := second.Publish([]*inventory.Device{theirs}, nobody).Qualified(theirs.Key); err != nil {
		t.Fatal(err)
	}
	if name, err := second.Publish([]*inventory.Device{theirs, device("A", "3")}, nobody).Qualified(key("A")); err == nil || len(second.Notes()) != 1 {
		t.Errorf("a device of another store's backend is %s, notes are %q; want a problem", name, second.Notes())
	}
	wantEnv(t, dir, "VALUE=1")
	if err := first.Close(everyone); err != nil {
		t.Fatal(err)
	}
	second.Publish([]*inventory.Device{theirs}, nobody)
	wantEnv(t, dir, "VALUE=1")
	// Who has the backend's devices now also has what containers may hold.
	var adopted []inventory.Key
	if err := second.Close(nobody); err != nil {
		t.Fatal(err)
	}
	third, err := cdi.Open(cdi.Options{Dir: dir, Adopted: func(keys ...inventory.Key) { adopted = append(adopted, keys...) }})
	if err != nil {
		t.Fatal(err)
	}
	third.Publish([]*inventory.Device{device("A", "3")}, everyone)
	if len(adopted) != 1 || adopted[0] != key("A") {
		t.Errorf("adopted are %v, want device A", adopted)
	}
	wantEnv(t, dir, "VALUE=1")
	if err := third.Close(nobody); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// wantEnv wants the variable in the plain definition of device A.
func wantEnv(t *testing.T, dir, want string) {
	t.Helper()
	data, err := os.ReadFile(dir + "/accelmux-" + backend + "-gpu.json")
	if err != nil || !strings.Contains(string(data), want) {
		t.Errorf("the spec is %s, %v; want %s in it", data, err, want)
	}
}

// Verifies that specs whose lock file was removed are locked again, and left to another
// store that was faster until it ends.
func TestLockFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	lockFile := dir + "/accelmux-" + backend + ".lock"
	s := open(t, dir)
	devices := []*inventory.Device{device("A", "1")}
	publish := func() error {
		_, err := s.Publish(devices, nobody).Qualified(key("A"))
		return err
	}
	if err := errors.Join(publish(), os.Remove(lockFile), publish()); err != nil {
		t.Fatal(err)
	}
	if _, err := takeover.LockFile(lockFile); !errors.Is(err, takeover.ErrHeld) {
		t.Fatalf("the lock file that was removed is not locked again: %v", err)
	}
	if err := os.Remove(lockFile); err != nil {
		t.Fatal(err)
	}
	faster, err := takeover.LockFile(lockFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := publish(); err == nil || len(s.Notes()) != 1 {
		t.Errorf("publish gives %v, notes are %q; want that another agent has the backend", err, s.Notes())
	}
	if names := s.Publish(devices, nobody); names.RetryAt().IsZero() {
		t.Error("it is not tried again")
	}
	if err := errors.Join(faster.Remove(), publish()); err != nil || len(s.Notes()) != 0 {
		t.Errorf("after the other agent's end publish gives %v, notes are %q", err, s.Notes())
	}
	if err := s.Close(nobody); err != nil {
		t.Error(err)
	}
}

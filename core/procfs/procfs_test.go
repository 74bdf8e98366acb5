package procfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Verifies that a process's name cannot be read as its state or parent.
func TestStat(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte("12 (a) Z 99 b) S 7 12 12 0 -1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if state, parent, err := Stat(dir); state != 'S' || parent != 7 || err != nil {
		t.Errorf("%c, %d, %v, want S, 7", state, parent, err)
	}
	if _, parent, err := Stat(Dir(os.Getpid())); parent != os.Getppid() || err != nil {
		t.Errorf("the parent is %d, %v, want %d", parent, err, os.Getppid())
	}
	if _, _, err := Stat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("error %v for a missing process", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "stat"), []byte("12"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Stat(dir); err == nil {
		t.Error("no error for a malformed file")
	}
}

// Verifies that the times of all threads are added.
func TestTimes(t *testing.T) {
	dir := t.TempDir()
	for thread, text := range map[string]string{"7": "100 2000000000 3\n", "8": "9 500000000 1\n", "9": ""} {
		if err := os.MkdirAll(filepath.Join(dir, "task", thread), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "task", thread, "schedstat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if ran, waited := Times(dir); ran != 109 || waited != 2500*time.Millisecond {
		t.Errorf("ran %v, waited %v, want 109ns, 2.5s", ran, waited)
	}
	if ran, waited := Times(filepath.Join(dir, "none")); ran != 0 || waited != 0 {
		t.Errorf("a process that has ended ran %v, waited %v", ran, waited)
	}
}

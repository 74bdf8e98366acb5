package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/accelmux/accelmux/test/patience"
)

// ownFiles returns the regular files in the agent's directories, below the node's.
func (n *node) ownFiles() (files []string) {
	n.Helper()
	for _, dir := range []string{"state", "run", "cdi", "features"} {
		if err := filepath.WalkDir(n.path(dir), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				files = append(files, strings.TrimPrefix(path, n.dir+"/"))
			}
			return nil
		}); err != nil {
			n.Fatal(err)
		}
	}
	return files
}

// Verifies for each file that the agent has in its directories that what is in its place (a named pipe, a
// link, another name of a file) is neither waited for, followed nor written to: the agent serves, or for a
// lock ends with what to remove, and SIGTERM ends it.
func TestOnlyItsOwnFiles(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.startKubelet()
	n.configure(oneBackend)
	n.scenario("devices: {mock-0: {fault: {code: x, recovery: reboot}}}")
	served := func() {
		t.Helper()
		p := n.startProgram("run", "--features-dir", n.path("features"))
		n.wantCounts(gpu, 4, 3)
		p.eventually("its files are written", func() bool {
			files := n.ownFiles()
			for _, name := range []string{"cdi/accelmux-mock-gpu.json", "features/accelmux", "run/run.lock", "state/health.reserve", "state/lock", "state/profile"} {
				if !slices.Contains(files, name) {
					return false
				}
			}
			return true
		})
		p.signal(syscall.SIGTERM)
	}
	served()
	if err := os.WriteFile(n.path("state/usage"), nil, 0o600); err != nil { // written with the first allocation
		t.Fatal(err)
	}
	victim := n.path("victim")
	plant := func(file string, put func(victim, at string) error) {
		t.Helper()
		_ = os.Remove(n.path(file)) // it may be a file that is gone by now
		if err := put(victim, n.path(file)); err != nil {
			t.Fatal(err)
		}
	}
	pipe := func(_, at string) error { return syscall.Mkfifo(at, 0o600) }
	isLock := func(file string) bool { return strings.HasSuffix(file, "lock") }
	for kind, put := range map[string]func(victim, at string) error{"pipes": pipe, "links": os.Symlink, "hard links": os.Link} {
		if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, file := range n.ownFiles() {
			if !isLock(file) {
				plant(file, put)
			}
		}
		served()
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("beside %s, the victim is %q, %v", kind, text, err)
		}
	}
	locks := slices.DeleteFunc(n.ownFiles(), func(file string) bool { return !isLock(file) || strings.Contains(file, "standby") })
	for _, lock := range locks {
		plant(lock, pipe)
		p := n.startProgram("run")
		if !patience.Within(patience.Long, p.over) || !n.loggedLine(n.path(lock), "remove it") {
			t.Errorf("beside a pipe at %s the agent does not end with what to remove", lock)
			p.signal(syscall.SIGTERM)
		}
		_ = os.Remove(n.path(lock))
	}
}

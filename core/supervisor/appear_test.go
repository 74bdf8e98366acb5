package supervisor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/supervisor"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/patience"
)

// newOpener is a rig whose manifest gives the program nodes in the directory dev, what to write in run, and what it only
// reads. The spec's process starts when there is a file flag.
func newOpener(t *testing.T, timing supervisor.Timing) (_ *rig, dir string, _ supervisor.Spec) {
	t.Helper()
	r, dir := newRig(t, timing), tempDir(t)
	r.describe(opener(dir))
	for _, name := range []string{"etc/acme.conf", "flags/flag", "dev/acme0", "run/x"} {
		touch(t, dir, name)
	}
	s := spec("reader", flagEnv, dir+"/flags/flag")
	s.Sandbox.AcceptDeclared = true
	return r, dir, s
}

func opener(dir string) string {
	return `
process:
  - {why: It opens its nodes., open: [` + dir + `/dev/acme*]}
  - {why: It writes to what there is., write: [` + dir + `/run/*/**]}
  - {why: It reads its files., read: [` + dir + `/etc/acme.*, ` + dir + `/opt/**]}
`
}

// touch makes a file anew.
func touch(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	made := filepath.Join(filepath.Dir(path), ".new") // matches no pattern of the tests
	must(t, os.WriteFile(made, nil, 0o666))
	must(t, os.Rename(made, path))
}

// starts counts the starts of readers.
func (r *rig) starts() int { return strings.Count(r.log.String(), "a reading process") }

// Verifies that a node that appears replaces the process once, the old one serving until the new one has reported its devices;
// and that nothing else does: what vanishes, or files that it only reads, made again.
func TestFilesAppear(t *testing.T) {
	t.Parallel()
	r, dir, s := newOpener(t, fast())
	r.run(s)
	must(t, os.Remove(dir+"/dev/acme0"))
	touch(t, dir, "etc/acme.conf")
	touch(t, dir, "etc/acme.cache")
	touch(t, dir, "opt/file")
	for i, appears := range []string{"dev/acme0", "dev/acme1", "run/driver"} {
		old := r.status()
		must(t, os.Remove(dir+"/flags/flag"))
		if appears == "run/driver" {
			must(t, os.Mkdir(filepath.Join(dir, appears), 0o755))
		} else {
			touch(t, dir, appears)
		}
		patience.Until(t, "another process", func() bool { return r.starts() == i+2 })
		if err := r.command(t.Context(), "dev-1"); err != nil {
			t.Errorf("Prepare: %v", err)
		}
		if now := r.status(); now.PID != old.PID || now.State != supervisor.Running {
			t.Errorf("the old process does not serve: %+v", now)
		}
		touch(t, dir, "flags/flag")
		r.until(t, "the new process serves", func() bool { now := r.status(); return now.Applied && now.PID != old.PID })
		if want := "files=" + filepath.Join(dir, appears) + "\n"; !strings.Contains(r.log.String(), want) {
			t.Errorf("the log has no %q", want)
		}
		if now := r.status(); r.count("lost b") > 0 || now.Restarts != 0 || len(now.Problems) > 0 || now.LastError != "" || r.starts() != i+2 {
			t.Errorf("%d starts, %d losses, status %+v", r.starts(), r.count("lost b"), now)
		}
	}
}

// Verifies that a burst of nodes replaces the process a few times at most.
func TestManyFilesAppear(t *testing.T) {
	t.Parallel()
	timing := fast()
	timing.Settle = 200 * time.Millisecond // so that a process is two seconds old before it is replaced
	r, dir, s := newOpener(t, timing)
	r.run(s)
	old := r.status()
	for i := range 1000 {
		touch(t, dir, fmt.Sprintf("dev/acme%d", i))
	}
	r.until(t, "another process", func() bool { now := r.status(); return now.Applied && now.PID != old.PID })
	old = r.status()
	touch(t, dir, "dev/acme-last")
	r.until(t, "another process with the last", func() bool { now := r.status(); return now.Applied && now.PID != old.PID })
	if n := r.starts(); n > 10 {
		t.Errorf("%d starts", n)
	}
}

// playLauncher is a launcher with mounts of its own: what is mounted in its directory dev is in no other mount namespace.
func playLauncher() {
	socket, backendDir, dev := os.Args[1], os.Args[2], os.Args[3]
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("none", dev, "tmpfs", 0, "")
	}
	if err == nil {
		err = serveLauncher(context.Background(), socket, backendDir)
	}
	fmt.Fprintln(os.Stderr, err)
	syscall.Exit(1)
}

// startLauncher starts a launcher in a process and a mount namespace of its own.
func (r *rig) startLauncher(socket, backendDir, dev string) *exec.Cmd {
	r.t.Helper()
	self, err := os.Executable()
	must(r.t, err)
	cmd := exec.Command(self, socket, backendDir, dev)
	cmd.Env, cmd.Stderr = append(os.Environ(), roleEnv+"=launcher"), r.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	must(r.t, cmd.Start())
	r.t.Cleanup(func() { // after r.Close, with the directory's removal
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// Verifies that a node that appears only in the launcher's container replaces the process there, and that one that appears
// only in the agent's does not.
func TestFilesAppearAtLauncher(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can make a mount namespace")
	}
	dir, programs := tempDir(t), newRig(t, fast()).backendDir
	socket := filepath.Join(tempDir(t), "shared", "launcher.sock")
	r := newLaunchedRig(t, socket, fast())
	for _, backends := range []string{programs, r.backendDir} {
		r.describeIn(backends, opener(dir))
	}
	must(t, os.MkdirAll(dir+"/dev", 0o755))
	cmd := r.startLauncher(socket, programs, dir+"/dev")
	s := spec("reader")
	s.Sandbox.AcceptDeclared = true
	r.run(s)
	old := r.pid(t, "b", "pid")
	touch(t, dir, "dev/acme0")
	there := fmt.Sprintf("/proc/%d/root", cmd.Process.Pid)
	touch(t, there+dir, "dev/acme1")
	r.until(t, "another process", func() bool { return r.status().Applied && r.pid(t, "b", "pid") != old })
	if n := strings.Count(r.log.String(), "files appeared"); n != 1 || r.starts() != 2 || r.count("lost b") > 0 || !strings.Contains(r.log.String(), "files="+dir+"/dev/acme1\n") {
		t.Errorf("%d replacements, %d starts, %d losses", n, r.starts(), r.count("lost b"))
	}
	if _, err := os.Stat(there + dir + "/dev/acme0"); err == nil {
		t.Error("the launcher has no mounts of its own")
	}
	must(t, r.Close(t.Context()))
}

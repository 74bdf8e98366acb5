package openfiles

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/test/host"
)

const helperEnv = "OPENFILES_TEST"

// full is /dev/full (Documentation/admin-guide/devices.txt of the kernel), which hardly any process has open.
var full = Device{Major: 1, Minor: 7}

// init keeps the helper's main function on the first thread of its process.
func init() { runtime.LockOSThread() }

// TestMain is also the processes of the tests.
func TestMain(m *testing.M) {
	what := os.Getenv(helperEnv)
	if what == "" {
		runtime.UnlockOSThread()
		goleak.VerifyTestMain(m)
		return
	}
	file, err := os.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	switch what {
	case "many":
		for {
			if _, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
				break
			}
		}
	}
	fmt.Println("ready")
	if what == "thread" {
		defer runtime.KeepAlive(file)
		go pause()
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) // of the first thread alone
	}
	pause()
	_ = file.Close()
}

// pause waits until the process is killed.
func pause() {
	for {
		_ = unix.Pause() // it returns after each signal of the runtime
	}
}

// tree is a procfs with processes of a test: others of this machine are no matter of it.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) *tree {
	n := &tree{t, t.TempDir()}
	must(t, os.MkdirAll(filepath.Join(n.dir, "self/ns"), 0o755))
	must(t, os.Symlink(initial, filepath.Join(n.dir, "self/ns/pid")))
	must(t, os.Mkdir(filepath.Join(n.dir, "1"), 0o755))
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start adds a process to the tree.
func (n *tree) start(cmd *exec.Cmd) (pid int) {
	n.t.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(n.t, err)
	must(n.t, cmd.Start())
	n.t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	must(n.t, err)
	pid = cmd.Process.Pid
	must(n.t, os.Symlink(fmt.Sprintf("/proc/%d", pid), filepath.Join(n.dir, strconv.Itoa(pid))))
	return pid
}

// helper adds a process that has a file open.
func (n *tree) helper(what, file string) int {
	n.t.Helper()
	self, err := os.Executable()
	must(n.t, err)
	cmd := &exec.Cmd{Path: self, Args: []string{"helper", file}, Env: []string{helperEnv + "=" + what}}
	return n.start(cmd)
}

func nobody(int) bool { return false }

// node makes a node of /dev/full with another path, which can be opened.
func node(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other")
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(full.Major, full.Minor)))
	if err == nil {
		var file *os.File
		if file, err = os.Open(path); err == nil {
			_ = file.Close()
		}
	}
	if err != nil {
		host.Lacks(t, "only root can make device nodes: %v", err)
	}
	return path
}

// Verifies that a process is found that has a device open by whatever path, in its own mount namespace, and in threads that
// outlive its first one; and that its own processes are left out.
func TestFind(t *testing.T) {
	path := node(t)
	n := newTree(t)
	ns := exec.CommandContext(t.Context(), "sh", "-c", `mount -t tmpfs none "$1" && mknod "$1/own" c 1 7 && exec 3< "$1/own" && rm "$1/own" && echo ready && exec sleep 600`, "sh", t.TempDir())
	ns.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	want := []int{n.helper("open", "/dev/full"), n.helper("open", path), n.start(ns), n.helper("thread", path)}
	own := n.helper("open", path)
	n.helper("open", "/dev/zero")
	found, err := New().Find(t.Context(), n.dir, []Device{{Major: 1, Minor: 9999}, full}, func(pid int) bool { return pid == own })
	must(t, err)
	got := map[int]string{}
	for _, p := range found {
		got[p.PID] = p.Name
	}
	for _, pid := range want {
		if got[pid] == "" {
			t.Errorf("process %d is not found, or has no name: %v", pid, found)
		}
	}
	if len(found) != len(want) {
		t.Errorf("found %v, want %v", found, want)
	}
	if found, err = New().Find(t.Context(), n.dir, []Device{{Block: true, Major: full.Major, Minor: full.Minor}}, nobody); err != nil || found != nil {
		t.Errorf("a block device with the number: %v, %v", found, err)
	}
}

// Verifies that a search of more descriptors than it has time for ends in time, uses at most about a quarter of a processor,
// and names the process with the most; that a process that was found until then is the answer; and that the next search
// begins.
func TestMillions(t *testing.T) {
	n := newTree(t)
	pid := n.helper("many", "/dev/zero")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	must(t, err)
	for i := range 5000 { // a process for each: no machine reads a hundred million descriptors in this time
		must(t, os.Symlink(fmt.Sprintf("/proc/%d", pid), filepath.Join(n.dir, strconv.Itoa(1_000_000+i))))
	}
	f := New()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		found, err := f.Find(ctx, n.dir, []Device{full}, nobody)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprintf(" has %d open files", len(files))) {
			t.Errorf("%v, %v; want an error with the process that has %d open files", found, err, len(files))
		}
	}
	n.helper("open", "/dev/full")
	must(t, os.Rename(filepath.Join(n.dir, strconv.Itoa(pid)), filepath.Join(n.dir, "9999999")))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began, before := time.Now(), used()
	s := &search{procfs: n.dir, devices: map[Device]bool{full: true}, own: nobody}
	err = s.run(ctx)
	if took, cpu := time.Since(began), used()-before; err == nil || cpu > took/2 {
		t.Errorf("%v of the processor's time in %v: %v", cpu, took, err)
	}
}

// Verifies that what is not known is an error, and not that no process has the device open.
func TestUnknown(t *testing.T) {
	n := newTree(t)
	refused := func(want string) {
		t.Helper()
		if found, err := New().Find(t.Context(), n.dir, []Device{full}, nobody); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want an error with %q", found, err, want)
		}
	}
	must(t, os.MkdirAll(filepath.Join(n.dir, "7"), 0o755))
	must(t, os.WriteFile(filepath.Join(n.dir, "7/comm"), []byte("ba\x1bd\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(n.dir, "7/fd"), nil, 0o600))
	refused(`the open files of process ba?d (7)`)
	must(t, os.Remove(filepath.Join(n.dir, "1")))
	refused("hidepid")
	must(t, os.Remove(filepath.Join(n.dir, "self/ns/pid")))
	refused("hostPID")
	f := New()
	f.busy <- struct{}{} // as a search that hangs in the kernel
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Find(ctx, n.dir, nil, nobody); err == nil || !strings.Contains(err.Error(), "an earlier search") {
		t.Errorf("beside a search that hangs: %v", err)
	}
}

// Verifies how processes are written in messages.
func TestProcesses(t *testing.T) {
	var many Processes
	for i := range 10 {
		many = append(many, Process{PID: 40 + i})
	}
	many[0].Name = "python"
	if got, want := many.String(), "python (40), 41, 42, 43, 44, 45, 46, 47 and 2 more"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

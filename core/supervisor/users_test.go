package supervisor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/procfs"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/host"
)

// Verifies that the processes are found that have a device open, whose node only runtimes make, but not the backend and its
// child, whether it runs as the agent's child or at a launcher; there, too, others are those that the agent started.
func TestUsers(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"agent", "launcher"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			proc := tempDir(t)
			// The other processes of this machine are no matter of the test. The namespace is the initial one (PROC_PID_INIT_INO).
			must(t, os.MkdirAll(filepath.Join(proc, "self/ns"), 0o755))
			must(t, os.Symlink("pid:[4026531836]", filepath.Join(proc, "self/ns/pid")))
			must(t, os.Mkdir(filepath.Join(proc, "1"), 0o755))
			show := func(pid int) {
				must(t, os.Symlink(procfs.Dir(pid), filepath.Join(proc, strconv.Itoa(pid))))
			}
			r := &rig{recorder: newRecorder(), t: t, backendDir: tempDir(t), runDir: tempDir(t), log: &buffer{}}
			r.paths = &backendv1.HostPaths{Sysfs: "/sys", Devfs: tempDir(t), Procfs: proc}
			r.install()
			if where == "launcher" {
				if os.Geteuid() != 0 {
					host.Lacks(t, "only root can make a mount namespace")
				}
				socket := filepath.Join(tempDir(t), "shared", "launcher.sock")
				r.launchers = map[string]string{program: socket}
				r.startLauncher(socket, r.backendDir, tempDir(t))
			}
			r.open(fast())
			r.run(spec("normal"))
			must(t, r.command(t.Context(), "hold"))
			backend := r.pid(t, "b", "pid")
			show(backend)
			child, err := strconv.Atoi(childrenOf(t, backend)[0])
			must(t, err)
			show(child)
			device := inventory.DeviceNode{HostPath: "/dev/acme0", Type: "c", Major: 1, Minor: 7} // /dev/full
			want := func(want string) {
				t.Helper()
				found, err := r.Users(t.Context(), "b", []inventory.DeviceNode{device})
				if err != nil || found.String() != want {
					t.Errorf("found %v, %v; want %q; the backend is %d, its child %d", found, err, want, backend, child)
				}
			}
			want("")
			full, err := os.Open("/dev/full")
			must(t, err)
			other := exec.Command("/bin/sleep", "600")
			other.ExtraFiles = []*os.File{full}
			must(t, other.Start())
			t.Cleanup(func() { _, _, _ = other.Process.Kill(), other.Wait(), full.Close() })
			show(other.Process.Pid)
			want(fmt.Sprintf("sleep (%d)", other.Process.Pid))
			device.Type = "b" // another device
			want("")
			gone := []inventory.DeviceNode{device, {HostPath: "/dev/acme1"}}
			if found, err := r.Users(t.Context(), "b", gone); err == nil || !strings.Contains(err.Error(), "does not see the device node /dev/acme1") {
				t.Errorf("a node that is gone: %v, %v", found, err)
			}
			if _, err := r.Users(t.Context(), "c", nil); err == nil {
				t.Error("an unknown backend has users")
			}
			must(t, r.Close(t.Context()))
			device.Type = "c"
			if _, err := r.Users(t.Context(), "b", []inventory.DeviceNode{device}); err == nil {
				t.Errorf("users are known without a process: want %v", supervisor.ErrNotRunning)
			}
		})
	}
}

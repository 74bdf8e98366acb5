package agent

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/agent"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/host"
	"github.com/accelmux/accelmux/test/sysroot"
)

const leftoversNode = `
apiVersion: accelmux.io/v1alpha1
kind: NodeConfig
profiles:
  - name: default
    backends:
      - {name: BACKEND, settings: {prepare: {leftovers: report}}}
    resources:
      - {name: example.com/gpu, backend: BACKEND}
`

// usedNode is a node with a real backend, whose one device a process may have open.
type usedNode struct {
	*node
	options agent.Options
	// device is the path of its device node in the backend's /dev.
	device string
}

func newUsedNode(t *testing.T, backend string) *usedNode {
	t.Helper()
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can make device nodes")
	}
	u := &usedNode{node: newNode(t)}
	u.options = u.node.options()
	u.options.HostPaths = agent.HostPaths{Procfs: u.path("proc")}
	if backend == "fpga" {
		tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewD5005())
		if err != nil {
			t.Fatal(err)
		}
		u.options.HostPaths.Devfs, u.options.HostPaths.Sysfs, u.device = tree.Devfs(), tree.Sysfs(), filepath.Join(tree.Devfs(), "dfl-port.0")
	} else {
		tree := amdtree.New(t, amdtree.NewVega10())
		u.options.HostPaths.Devfs, u.options.HostPaths.Sysfs, u.device = tree.Devfs(), tree.Sysfs(), filepath.Join(tree.Devfs(), "dri/card0")
	}
	// The other processes of this machine are no matter of the test.
	if err := errors.Join(
		os.MkdirAll(u.path("proc/self/ns"), 0o755), os.Symlink("pid:[4026531836]", u.path("proc/self/ns/pid")), os.MkdirAll(u.path("proc/1"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	return u
}

// start starts the agent, and a pod that is given the device.
func (u *usedNode) start(backend, leftovers string) {
	u.Helper()
	u.startKubelet()
	u.configure(strings.NewReplacer("BACKEND", backend, "report", leftovers).Replace(leftoversNode))
	u.startAgentWith(u.options)
	u.wantCounts(gpu, 1, 1)
	u.allocate("pod", gpu, 1)
}

// show makes a process visible to the agent.
func (u *usedNode) show(pid, as string) {
	u.Helper()
	if err := os.Symlink("/proc/"+pid, u.path("proc", as)); err != nil {
		u.Fatal(err)
	}
}

// Verifies that the agent finds the processes that have a device open before a container gets it, by another path and in
// another mount namespace, also by a node that the backend itself may not open, as AMD's card nodes.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"fpga", "amd"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			u := newUsedNode(t, backend)
			leftover := keepOpen(t, u.device)
			u.show(leftover, leftover)
			u.start(backend, "report")
			if err := u.startContainer("pod"); err != nil {
				t.Fatal(err)
			}
			u.eventually("the process is logged", func() bool {
				return u.loggedLine("processes use the device before its container starts", "python3 ("+leftover+")")
			})
		})
	}
}

// Verifies that a container which needs an unused device does not start while other processes have more descriptors than can be
// inspected, and that the message names the process with the most; the agent's other work goes on.
func TestMillionsOfDescriptors(t *testing.T) {
	t.Parallel()
	u := newUsedNode(t, "fpga")
	command := exec.CommandContext(t.Context(), "python3", "-c", `
import os, time
try:
    while True: os.dup(0)
except OSError: print("ready", flush=True)
time.sleep(600)`)
	many := started(t, command)
	for i := range 5000 { // as that many processes with as many descriptors
		u.show(many, strconv.Itoa(1_000_000+i))
	}
	u.start("fpga", "fail")
	err := u.startContainer("pod")
	if err == nil || !strings.Contains(err.Error(), "python3 (10") || !strings.Contains(err.Error(), " open files") {
		t.Errorf("the container starts: %v; want the process with the most descriptors", err)
	}
	u.wantCounts(gpu, 1, 1)
}

// keepOpen starts a process that has a device open by a node of its own mount namespace, as one in a container does, and returns
// its ID. The device has no driver here, so it is open by O_PATH, which asks for none.
func keepOpen(t *testing.T, device string) (pid string) {
	t.Helper()
	var node unix.Stat_t
	if err := unix.Stat(device, &node); err != nil {
		t.Fatal(err)
	}
	const program = `mount -t tmpfs none /mnt && mknod /mnt/own c "$1" "$2" && exec python3 -c '
import os, time
os.open("/mnt/own", os.O_PATH)
os.remove("/mnt/own")
print("ready", flush=True)
time.sleep(600)'`
	major, minor := int(unix.Major(node.Rdev)), int(unix.Minor(node.Rdev))
	command := exec.CommandContext(t.Context(), "sh", "-c", program, "sh", strconv.Itoa(major), strconv.Itoa(minor))
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	return started(t, command)
}

// started starts a process, waits for its first line, and returns its ID.
func started(t *testing.T, command *exec.Cmd) (pid string) {
	t.Helper()
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() }) // t.Context has ended
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal("the process did not start: ", err)
	}
	return strconv.Itoa(command.Process.Pid)
}

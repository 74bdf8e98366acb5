package agent

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
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

// Verifies that a backend in its sandbox, which may not look into other processes, learns from the agent which of
// them has a device of its own open: also by a node that the backend itself may not open, as AMD's card nodes.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		host.Lacks(t, "only root can make the mounts of a container")
	}
	fpga, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewD5005())
	if err != nil {
		t.Fatal(err)
	}
	amd := amdtree.New(t, amdtree.NewVega10())
	for backend, c := range map[string]struct{ sysfs, devfs, node string }{
		"fpga": {fpga.Sysfs(), fpga.Devfs(), "/dev/dfl-port.0"},
		"amd":  {amd.Sysfs(), amd.Devfs(), "/dev/dri/card0"},
	} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			leftover := keepOpen(t, c.node)
			n := newNode(t)
			// The other processes of this machine are no matter of the test.
			if err := errors.Join(
				os.Symlink("/proc/"+leftover, n.path("proc", leftover)),
				os.MkdirAll(n.path("proc/self/ns"), 0o755), os.Symlink("pid:[4026531836]", n.path("proc/self/ns/pid")),
			); err != nil {
				t.Fatal(err)
			}
			n.startKubelet()
			n.configure(strings.ReplaceAll(leftoversNode, "BACKEND", backend))
			options := n.options()
			options.HostPaths = agent.HostPaths{Procfs: n.path("proc"), Devfs: c.devfs, Sysfs: c.sysfs}
			n.startAgentWith(options)
			n.wantCounts(gpu, 1, 1)
			n.allocate("pod", gpu, 1)
			if err := n.startContainer("pod"); err != nil {
				t.Fatal(err)
			}
			n.eventually("the process is logged", func() bool {
				return n.loggedLine("processes use the device before its container starts", "sleep ("+leftover+")")
			})
		})
	}
}

// keepOpen starts a process that has a device node open, as one in a container does, and returns its ID.
func keepOpen(t *testing.T, node string) (pid string) {
	t.Helper()
	const program = `mount -t tmpfs none /dev && mkdir -p "${1%/*}" && : > "$1" && exec < "$1" && echo $$ && exec sleep 600`
	command := exec.CommandContext(t.Context(), "sh", "-c", program, "sh", node)
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Wait() }) // t.Context has ended
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("no process has the node open: ", err)
	}
	return strings.TrimSpace(line)
}

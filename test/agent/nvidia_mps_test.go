package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/patience"
)

// mpsControl is an nvidia-cuda-mps-control whose server is a child of the daemon, and which
// has a client as long as there is a file "clients".
const mpsControl = `#!/bin/sh
cd "$CUDA_MPS_PIPE_DIRECTORY" || exit 1
if [ "$1" = -f ]; then
	sleep 1000 & echo $! > server
	echo $$ > pid.new && mv pid.new pid
	exec sleep 1000
fi
read -r line
kill -0 "$(cat pid 2>/dev/null)" 2>/dev/null || exit 1
case "$line" in
get_default*) echo 50 ;;
get_server_list) cat server ;;
get_client_list*) cat clients 2>/dev/null ;;
quit*) kill "$(cat pid)" ;;
esac
exit 0
`

// mpsNode is a node whose GPU is shared by MPS, with agents started by hand.
type mpsNode struct{ *nvidiaNode }

func newMPSNode(t *testing.T) *mpsNode {
	t.Helper()
	n := &mpsNode{newNVIDIANode(t, 1)}
	for name, text := range map[string]string{"nvidia-cuda-mps-control": mpsControl, "nvidia-smi": "#!/bin/sh\n"} {
		if err := os.WriteFile(n.path(name), []byte(text), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
	}
	t.Cleanup(n.endCompanion)
	return n
}

// Settings with which two containers share the GPU by MPS, and by nothing.
const (
	withMPS    = "edits: {mode: runtime}, mps: {replicas: 2, dir: DIR/mps, program: DIR/nvidia-cuda-mps-control}"
	withoutMPS = "edits: {mode: runtime}"
)

// startAgent starts an agent as a process of its own.
func (n *mpsNode) startAgent(runDir string, more ...string) *program {
	n.Helper()
	p := n.newProgram(runDir, n.command(runDir, append(more, "--take-over", "--devfs", n.path("dev"), "--sysfs", n.path("sys"))...))
	p.command.WaitDelay = time.Second // the companion keeps its standard error open
	p.start()
	return p
}

// pid returns the process ID in a file of the daemon's, 0 if there is none.
func (n *mpsNode) pid(file string) int {
	text, err := os.ReadFile(n.path("mps", "pipe", file))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}

// wantSame fails if the daemon or its server are other processes than they were, or have
// ended.
func (n *mpsNode) wantSame(after string, daemon, server int) {
	n.Helper()
	n.wantCounts(nvidiaGPU, 2, 2)
	if now := n.pid("pid"); now != daemon || ended(daemon) || ended(server) {
		n.Fatalf("after %s the daemon is process %d; want %d, which has ended: %v, its server: %v", after, now, daemon, ended(daemon), ended(server))
	}
}

// ended reports whether a process has ended.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// endCompanion ends the companion: it has the daemon's socket in its arguments.
func (n *mpsNode) endCompanion() {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "--dir="+n.path("mps")+"\x00") {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		_ = syscall.Kill(pid, syscall.SIGTERM)
		if !patience.Within(patience.Long, func() bool { return ended(pid) }) {
			n.Errorf("the companion, process %d, did not end after SIGTERM", pid)
		}
	}
}

// Verifies that the MPS control daemon that `accelmux run` starts, and with it the work of its
// clients, outlives crashes and replacements of the backend, a takeover, a killed agent, and a
// configuration without MPS; and that it ends when it has no clients then. With --companions=false
// none is started, and the device waits for one.
func TestMPSOutlivesAgent(t *testing.T) {
	t.Parallel()
	n := newMPSNode(t)
	n.configureNVIDIA(withMPS, "first", 2)
	other := n.startAgent("other", "--companions=false")
	other.eventually("the backend reports what it needs", func() bool {
		devices, err := other.client.Devices(t.Context())
		return err == nil && len(devices) == 1 && len(devices[0].Faults) == 1 && devices[0].Faults[0].Code == "mps-not-ready" &&
			strings.Contains(devices[0].Faults[0].Message, "accelmux-nvidia-mps")
	})
	other.end()

	agent := n.startAgent("first")
	n.wantCounts(nvidiaGPU, 2, 2)
	daemon, server := n.pid("pid"), n.pid("server")
	n.allocate("pod", nvidiaGPU, 1)
	if err := os.WriteFile(n.path("mps", "pipe", "clients"), []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	n.mark(nvidiaGPU)
	n.replaceBackend(agent, func(pid int) { n.kill(pid, syscall.SIGKILL) })
	n.wantSame("a crash of the backend", daemon, server)
	n.replaceBackend(agent, func(int) { n.configureNVIDIA(withMPS, "second", 2) })
	n.wantSame("the replacement of the backend", daemon, server)

	newer := n.upgrade(agent, "second")
	n.wantSame("the takeover", daemon, server)
	n.wantNoDip(nvidiaGPU, 2)

	newer.signal(syscall.SIGKILL)
	last := n.startAgent("third")
	n.wantSame("the end of a killed agent", daemon, server)

	n.configureNVIDIA(withoutMPS, "second", 2)
	last.eventually("MPS is not configured any more", func() bool { return sharedByMPS(last) == 0 })
	n.wantSame("MPS was taken from the configuration", daemon, server)
	if err := os.Remove(n.path("mps", "pipe", "clients")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	last.eventually("the daemon ended after its clients", func() bool { return ended(daemon) && ended(server) })
}

// upgrade replaces an agent by a newer one, as an upgrade does.
func (n *mpsNode) upgrade(older *program, runDir string) (newer *program) {
	n.Helper()
	newer = n.startAgent(runDir)
	newer.eventually("it is on standby", func() bool { return newer.report().Role == status.RoleStandby && len(newer.report().NotReady) == 0 })
	older.signal(syscall.SIGTERM)
	newer.eventually("it has taken over", func() bool { return newer.report().Role == status.RoleActive && len(newer.report().NotReady) == 0 })
	return newer
}

// replaceBackend does what ends a backend process, and waits for the next one.
func (n *mpsNode) replaceBackend(agent *program, end func(pid int)) {
	n.Helper()
	before := agent.backend("nvidia").PID
	end(before)
	agent.eventually("another backend process runs", func() bool { b := agent.backend("nvidia"); return b.PID != before && b.PID != 0 })
}

// sharedByMPS returns the number of devices that MPS shares.
func sharedByMPS(p *program) (count int) {
	devices, err := p.client.Devices(p.Context())
	if err != nil {
		return -1
	}
	for _, d := range devices {
		if _, ok := d.Attributes["sharing"]; ok {
			count++
		}
	}
	return count
}

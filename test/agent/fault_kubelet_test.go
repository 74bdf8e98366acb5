package agent

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/agent"
)

// impatient agents say soon what is wrong with kubelet.
func impatient(options *agent.Options) {
	options.Timing.Plugin.Patience = 100 * time.Millisecond
	options.Timing.Plugin.Poll = 50 * time.Millisecond
	options.Timing.Plugin.Register = 300 * time.Millisecond
	options.Timing.Plugin.MaxBackoff = 200 * time.Millisecond
}

// A directory of kubelet's in which no socket can be made costs nothing that is served
// already. Who starts then says which directory, and why; and is registered as soon as
// the directory can be written.
func TestKubeletDirectoryUnwritable(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	n := startNode(t, 4, oneBackend, impatient)
	n.mark(gpu)
	mended := n.readOnly("kubelet", "device-plugins")
	n.scenario("devices: {mock-0: {fault: {code: x, recovery: self}}}")
	n.wantCounts(gpu, 4, 3)
	n.scenario("")
	n.wantCounts(gpu, 4, 4)
	n.allocate("before", gpu, 1)
	n.wantNoDip(gpu, 3)
	n.Run("an agent that starts", func(t *testing.T) {
		n := newNode(t)
		n.startKubelet()
		n.configure(oneBackend)
		mended := n.readOnly("kubelet", "device-plugins")
		options := n.options()
		impatient(&options)
		n.startAgentWith(options)
		n.wantProblem(gpu, "kubelet/device-plugins", "read-only file system")
		mended()
		n.wantCounts(gpu, 4, 4)
		n.eventually("no problem is left", func() bool { return n.problems() == "" })
	})
	mended()
	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 4)
}

// Kubelet's directory, the state and the CDI specs may each be on a file system of their
// own: nothing is renamed from one to another.
func TestKubeletDirectoryOnAnotherFileSystem(t *testing.T) {
	if !ownMounts(t) {
		return
	}
	n := newNode(t)
	seen := map[uint64]string{}
	for _, name := range []string{"kubelet", "state", "run", "cdi"} {
		n.disk("1m", name)
		var info syscall.Stat_t
		if err := syscall.Stat(n.path(name), &info); err != nil {
			t.Fatal(err)
		}
		if before, twice := seen[info.Dev]; twice {
			t.Fatalf("%s is on the file system of %s", name, before)
		}
		seen[info.Dev] = name
	}
	n.startKubelet()
	n.configure(oneBackend)
	n.startAgent()
	n.wantCounts(gpu, 4, 4)
	n.allocate("pod", gpu, 2)
	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 4)
	n.stopAgent()
	n.startAgent()
	n.wantCounts(gpu, 4, 4)
	if problems := n.problems(); problems != "" {
		t.Errorf("problems: %s", problems)
	}
}

// A directory of kubelet's that is deleted costs nothing while kubelet has its
// connection; status says that it is gone, and with the next kubelet all is as before.
func TestKubeletDirectoryDeleted(t *testing.T) {
	t.Parallel()
	n := startNode(t, 4, oneBackend, impatient)
	n.mark(gpu)
	n.removeAll("kubelet/device-plugins")
	n.wantProblem("device-plugins does not exist: is it mounted here, and is --kubelet-dir right?")
	n.allocate("meanwhile", gpu, 1)
	n.wantNoDip(gpu, 4)
	if err := n.kubelet.Restart(); err != nil {
		t.Fatal(err)
	}
	n.wantCounts(gpu, 4, 4)
	n.allocate("after", gpu, 1)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// A kubelet that accepts connections and never answers is given up each time; status
// says so, the backends run all the while, and the next kubelet gets everything.
func TestKubeletNeverAnswers(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	mute := n.muteKubelet("device-plugins")
	n.muteKubelet("pod-resources")
	n.configure(oneBackend)
	options := n.options()
	impatient(&options)
	n.startAgentWith(options)
	n.wantProblem(gpu, "kubelet did not register resource", "it is tried again")
	n.eventually("the backend runs", func() bool { return n.backend("mock").Devices == 4 })
	mute()
	n.startKubelet()
	n.wantCounts(gpu, 4, 4)
	n.allocate("pod", gpu, 4)
	n.eventually("no problem is left", func() bool { return n.problems() == "" })
}

// muteKubelet is one that accepts connections on its socket in that directory, and says
// nothing, until gone is called.
func (n *node) muteKubelet(dir string) (gone func()) {
	n.Helper()
	path := n.path("kubelet", dir, "kubelet.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(n.Context(), "unix", path)
	if err != nil {
		n.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer func() { _ = conn.Close() }()
		}
	}()
	gone = func() {
		if err := listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			n.Error(err)
		}
		<-done
	}
	n.Cleanup(gone)
	return gone
}

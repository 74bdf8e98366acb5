package deviceplugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/server"
	"github.com/accelmux/accelmux/test/patience"
)

// A resource reaches kubelet with health and topology, and Status has it.
func TestRegisters(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table([]*inventory.Device{
		device("a", 0), device("b", 0, 1), device("c"), broken(device("d", 1)),
	}, nil), allNames{})
	n.waitAllocatable(3)
	want := []kubelettest.Device{
		{ID: "a", Healthy: true, NUMANodes: []int{0}},
		{ID: "b", Healthy: true, NUMANodes: []int{0, 1}},
		{ID: "c", Healthy: true},
		{ID: "d", NUMANodes: []int{1}},
	}
	if diff := cmp.Diff(want, n.kubelet.Devices(gpu)); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	// Unknown is no topology, which is not the same as an empty one.
	list := newView(table([]*inventory.Device{device("a", 0), device("c")}, nil).Resources[0], allNames{}, nil).list.GetDevices()
	if list[0].GetTopology() == nil || list[1].GetTopology() != nil {
		t.Errorf("topologies are %v and %v", list[0].GetTopology(), list[1].GetTopology())
	}
	s := n.waitStatus("serving", func(s Status) bool { return s.State == StateServing })
	if s.Healthy != 3 || s.Unhealthy != 1 || s.Error != "" || s.Registrations != 1 || s.Since.IsZero() {
		t.Errorf("status is %+v", s)
	}
	if !strings.HasPrefix(filepath.Base(s.Socket), "accelmux-example.com_gpu-") || len(s.Socket) > server.MaxPath {
		t.Errorf("socket is %s", s.Socket)
	}
}

var registrations = map[string]config.Registration{
	"socket": config.RegisterSocket, "watcher": config.RegisterWatcher,
}

// Kubelet restarts again and again: each time the resource comes back, and nothing piles up. It
// does so on a socket that no kubelet has seen; or, if kubelet's plugin watcher finds it, on the
// same socket all the time.
func TestKubeletRestarts(t *testing.T) {
	for name, tc := range map[string]struct {
		legacy bool
		kind   config.Registration
	}{
		"1.37": {kind: config.RegisterSocket}, "1.36": {legacy: true, kind: config.RegisterSocket}, "watcher": {kind: config.RegisterWatcher},
	} {
		t.Run(name, func(t *testing.T) {
			const restarts = 30
			timing := fast
			timing.Poll = time.Hour // file events must do
			n := newNode(t, timing, tc.legacy)
			n.startKubelet()
			n.run()
			n.plugin.Publish(table(gpus(4), func(r *resource.Resource) { r.Registration = tc.kind }), allNames{})
			n.waitAllocatable(4)
			for range restarts {
				if err := n.kubelet.Restart(); err != nil {
					t.Fatal(err)
				}
				n.waitAllocatable(4)
			}
			sockets, registrations := map[string]bool{}, 0
			for _, e := range n.recorded() {
				if e.Type == kubelettest.EventRegistered {
					sockets[e.Socket] = true
					registrations++
				}
			}
			want := registrations
			if tc.kind == config.RegisterWatcher {
				want = 1
			}
			if len(sockets) != want || registrations < restarts+1 {
				t.Errorf("%d registrations on %d sockets", registrations, len(sockets))
			}
			n.waitStatus("one socket", func(Status) bool { return len(n.sockets()) == 1 })
		})
	}
}

// A kubelet that was killed leaves a socket that refuses; the next one is found.
func TestKubeletKilled(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	n.kubelet.Kill()
	n.waitStatus("the reason", func(s Status) bool {
		return s.State == StateWaiting && strings.Contains(s.Error, "cannot connect to kubelet on ")
	})
	n.startKubelet()
	n.waitAllocatable(2)
}

// A directory that is removed and made again is watched again.
func TestDirectoryMadeAgain(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	for range 3 {
		n.kubelet.Stop()
		if err := os.RemoveAll(n.kubelet.PluginDir()); err != nil {
			t.Fatal(err)
		}
		n.waitStatus("waiting", func(s Status) bool { return s.State == StateWaiting })
		n.startKubelet()
		n.waitAllocatable(2)
	}
}

// Somebody deletes our socket under a kubelet that goes on: registered again on
// a fresh one, without a dip.
func TestSocketVanishes(t *testing.T) {
	for name, kind := range registrations {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, fast)
			n.plugin.Publish(table(gpus(2), func(r *resource.Resource) { r.Registration = kind }), allNames{})
			n.waitAllocatable(2)
			before := n.waitStatus("serving", func(s Status) bool { return s.State == StateServing }).Socket
			if err := os.Remove(before); err != nil {
				t.Fatal(err)
			}
			n.waitFor("another socket", func(s kubelettest.State) bool {
				r := s.Resources[gpu]
				return r.Socket != before && r.Allocatable == 2 && r.Updates > 1
			})
		})
	}
}

// A kubelet that starts has bound its socket before it listens, and refuses in between:
// it is tried again at once, and not after a pause as after a failure.
func TestKubeletSocketBeforeItListens(t *testing.T) {
	timing := fast
	timing.Backoff, timing.Poll = time.Hour, time.Hour
	n := newNode(t, timing, false)
	if err := os.MkdirAll(n.kubelet.PluginDir(), 0o750); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "kubelet.sock")
	defer func() { _ = file.Close() }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: n.plugin.watch.socket}); err != nil {
		t.Fatal(err)
	}
	n.run()
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitStatus("waiting", func(s Status) bool { return s.State == StateWaiting })
	if err := unix.Listen(fd, 16); err != nil {
		t.Fatal(err)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	accepted := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = conn.Close()
		}
		accepted <- err
	}()
	select {
	case err := <-accepted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience.Long):
		t.Errorf("nobody comes; status is %+v", n.plugin.Status())
	}
}

// The stream breaks while neither side restarts: a fresh socket after a grace.
func TestStreamBreaks(t *testing.T) {
	for name, kind := range registrations {
		t.Run(name, func(t *testing.T) {
			timing := fast
			if kind == config.RegisterWatcher {
				timing.Connect = 500 * time.Millisecond // after it kubelet, which won't come again, is given up
			}
			n := startNode(t, timing)
			n.plugin.Publish(table(gpus(2), func(r *resource.Resource) { r.Registration = kind }), allNames{})
			n.waitAllocatable(2)
			for range 3 {
				before := n.waitStatus("serving", func(s Status) bool { return s.State == StateServing }).Socket
				n.kubelet.Disconnect(gpu)
				n.waitFor("another socket", func(s kubelettest.State) bool {
					r := s.Resources[gpu]
					return r.Socket != "" && r.Socket != before && r.Allocatable == 2
				})
				n.waitStatus("the old file is gone", func(Status) bool { return len(n.sockets()) == 1 })
			}
		})
	}
}

// mutedKubelet answers Register and never connects.
type mutedKubelet struct {
	pluginapi.UnimplementedRegistrationServer
	calls chan *pluginapi.RegisterRequest
	left  chan time.Duration
	err   error // Register's answer
}

func (m *mutedKubelet) Register(ctx context.Context, r *pluginapi.RegisterRequest) (*pluginapi.Empty, error) {
	deadline, _ := ctx.Deadline()
	select {
	case m.calls <- r:
		m.left <- time.Until(deadline)
	default:
	}
	return &pluginapi.Empty{}, m.err
}

// serve listens as kubelet; the returned function ends it.
func (m *mutedKubelet) serve(n *node) (stop func()) {
	n.t.Helper()
	if err := os.MkdirAll(n.kubelet.PluginDir(), 0o750); err != nil {
		n.t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(n.kubelet.PluginDir(), "kubelet.sock"))
	if err != nil {
		n.t.Fatal(err)
	}
	server := grpc.NewServer()
	pluginapi.RegisterRegistrationServer(server, m)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	return func() {
		server.Stop()
		<-done
	}
}

func newMutedKubelet() *mutedKubelet {
	return &mutedKubelet{calls: make(chan *pluginapi.RegisterRequest, 3), left: make(chan time.Duration, 3)}
}

// Register succeeds but no stream comes: a fresh socket is registered. The call
// has more time than kubelet may take to dial back.
func TestNoStreamAfterRegister(t *testing.T) {
	timing := fast
	timing.Connect, timing.Register = 20*time.Millisecond, 0 // the default
	n := newNode(t, timing, false)
	fake := newMutedKubelet()
	defer fake.serve(n)()
	n.plugin.Publish(table(gpus(4), nil), allNames{})
	n.run()
	seen, most := map[string]bool{}, time.Duration(0) // a busy machine may be late to look
	for range 3 {
		r := <-fake.calls
		if seen[r.GetEndpoint()] || strings.Contains(r.GetEndpoint(), "/") {
			t.Errorf("endpoint %s is not a fresh file name", r.GetEndpoint())
		}
		seen[r.GetEndpoint()] = true
		if r.GetVersion() != "v1beta1" || r.GetResourceName() != gpu || !r.GetOptions().GetGetPreferredAllocationAvailable() {
			t.Errorf("request is %v", r)
		}
		most = max(most, <-fake.left)
	}
	if most <= 10*time.Second {
		t.Errorf("Register has %v, kubelet may need 10s to dial back", most)
	}
}

// A new kubelet.sock is a new kubelet, also if it left our socket alone.
func TestNewKubeletSocket(t *testing.T) {
	timing := fast
	timing.Connect, timing.Poll = time.Hour, time.Hour
	n := newNode(t, timing, false)
	if err := os.MkdirAll(n.kubelet.PluginDir(), 0o750); err != nil {
		t.Fatal(err)
	}
	fake := newMutedKubelet()
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.run()
	var last string
	for range 3 {
		stop := fake.serve(n)
		r := <-fake.calls
		<-fake.left
		// Answered: from here on only the new socket file is a reason to come again.
		n.waitStatus("connecting", func(s Status) bool {
			return s.State == StateConnecting && filepath.Base(s.Socket) == r.GetEndpoint()
		})
		if r.GetEndpoint() == last {
			t.Errorf("%s was registered twice", last)
		}
		last = r.GetEndpoint()
		stop()
	}
}

// A name that kubelet refuses is a problem in Status, and the other resources are served.
func TestRefusedName(t *testing.T) {
	for name, kind := range registrations {
		t.Run(name, func(t *testing.T) {
			n := startNode(t, fast)
			good := table(gpus(2), nil)
			bad := table(gpus(2), func(r *resource.Resource) { r.Name, r.Registration = "a.kubernetes.io/x", kind })
			good.Resources = append(good.Resources, bad.Resources...)
			n.plugin.Publish(good, allNames{})
			n.waitAllocatable(2)
			n.waitStatus("the reason", func(s Status) bool {
				return s.Resource == "a.kubernetes.io/x" && strings.Contains(s.Error, "invalid") && s.State != StateServing
			})
		})
	}
}

// A resource is registered when it first has a unit, and then stays.
func TestFirstAndLastUnit(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table(nil, nil), allNames{})
	if s := n.waitStatus("empty", func(s Status) bool { return s.Resource == gpu }); s.State != StateEmpty {
		t.Errorf("state is %s", s.State)
	}
	n.plugin.Publish(table(gpus(1), nil), allNames{})
	n.waitAllocatable(1)
	if c := n.kubelet.State().Counts; c.Registered != 1 {
		t.Errorf("registered %d times", c.Registered)
	}
	n.plugin.Publish(&resource.Table{}, allNames{})
	n.waitAllocatable(0)
	if r := n.kubelet.State().Resources[gpu]; r.Capacity != 0 || r.Connections != 1 {
		t.Errorf("the resource is %+v", r)
	}
	n.waitStatus("that it left the table", func(s Status) bool { return s.State == StateServing && s.Unlisted && len(s.Notes) == 0 })
	n.plugin.Publish(table(gpus(3), nil), allNames{})
	n.waitAllocatable(3)
}

// A resource that containers hold is registered without a unit: kubelet would not
// start them again without.
func TestHeldResourceIsRegistered(t *testing.T) {
	n := startNode(t, fast)
	n.plugin.Publish(table(nil, func(r *resource.Resource) { r.Held = true }), allNames{})
	n.waitStatus("served", func(s Status) bool { return s.Resource == gpu && s.State == StateServing })
	if r := n.kubelet.State().Resources[gpu]; r.Capacity != 0 || r.Connections != 1 {
		t.Errorf("the resource is %+v", r)
	}
}

// Resources that come and go do not pile up: of those that left the table, the
// newest stay registered.
func TestResourcesThatLeftAreBounded(t *testing.T) {
	n := startNode(t, fast)
	name := func(i int) string { return fmt.Sprintf("example.com/r%03d", i) }
	list := func(i int) {
		n.plugin.Publish(table(gpus(1), func(r *resource.Resource) { r.Name = name(i) }), allNames{})
		n.waitFor(name(i), func(s kubelettest.State) bool { return s.Resources[name(i)].Allocatable == 1 })
	}
	wantEnded := func(last int, ended ...int) {
		t.Helper()
		n.waitFor(fmt.Sprintf("%v are ended, the others up to %d not", ended, last), func(s kubelettest.State) bool {
			for i := range last + 1 {
				if (s.Resources[name(i)].Connections == 0) != slices.Contains(ended, i) {
					return false
				}
			}
			return true
		})
		n.waitStatus("their sockets are gone", func(Status) bool { return len(n.sockets()) == last+1-len(ended) })
	}
	for i := range maxUnlisted + 3 {
		list(i)
	}
	wantEnded(maxUnlisted+2, 0, 1)
	list(2) // which leaves the table anew with the next one, after all others
	list(maxUnlisted + 3)
	wantEnded(maxUnlisted+3, 0, 1, 3)
	list(0)
}

// The end is quick, and what kubelet asked for before it is answered.
func TestEndAnswersAllocations(t *testing.T) {
	n := startNode(t, fast)
	n.life.block, n.life.entered = make(chan struct{}), make(chan struct{})
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	allocated := make(chan error, 1)
	go func() {
		_, err := n.kubelet.Allocate(t.Context(), "p", "c", gpu, 1)
		allocated <- err
	}()
	<-n.life.entered
	ended := make(chan error, 1)
	go func() { ended <- n.end() }()
	n.waitStatus("the socket is gone", func(Status) bool { return len(n.sockets()) == 0 })
	close(n.life.block)
	if err := <-allocated; err != nil {
		t.Errorf("the allocation: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// A call that never ends does not keep Run.
func TestEndIsBounded(t *testing.T) {
	timing := fast
	timing.Shutdown = 50 * time.Millisecond
	n := startNode(t, timing)
	n.life.block, n.life.entered = make(chan struct{}), make(chan struct{})
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = n.kubelet.Allocate(t.Context(), "p", "c", gpu, 1)
	}()
	<-n.life.entered
	if err := n.end(); err == nil {
		t.Error("Run says nothing of the call that still runs")
	}
	close(n.life.block)
	<-done
}

package holders

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/inventory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

var errNoKubelet = errors.New("no kubelet")

func key(id string) inventory.Key { return inventory.Key{Backend: "mock", ID: id} }

func unitOf(unit string) Unit {
	id, _, _ := strings.Cut(unit, "::")
	return Unit{ID: unit, Device: key(id)}
}

// pod is a pod with one container, "main", that has these units of gpu.
func pod(name string, units ...string) *podresourcesv1.PodResources {
	return podOf(name, gpu, units...)
}

func podOf(name, resource string, units ...string) *podresourcesv1.PodResources {
	container := &podresourcesv1.ContainerResources{Name: "main"}
	for _, unit := range units {
		// One entry for each NUMA node, as kubelet does.
		for range 2 {
			container.Devices = append(container.Devices, &podresourcesv1.ContainerDevices{ResourceName: resource, DeviceIds: []string{unit}})
		}
	}
	return &podresourcesv1.PodResources{Name: name, Namespace: "ns", Containers: []*podresourcesv1.ContainerResources{container}}
}

// kubelet is a lister that a test moves by hand, with its clock.
type kubelet struct {
	mu     sync.Mutex
	now    time.Time
	up     time.Duration
	pods   []*podresourcesv1.PodResources
	absent bool
	calls  int
	// devices are what is allocatable.
	devices []*podresourcesv1.ContainerDevices
	// gets counts the calls of Get, which noGet makes fail.
	gets  int
	noGet bool
	// until is when kubelet may be asked, if it has just started.
	until time.Time
	// realTime says that time.Now is its clock.
	realTime bool
	during   func() // called while the list is made
}

func newKubelet() *kubelet {
	return &kubelet{now: time.Now(), up: time.Hour, pods: []*podresourcesv1.PodResources{pod("other")}}
}

func (k *kubelet) clock() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

func (k *kubelet) pass(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = k.now.Add(d)
}

// list implements lister.
func (k *kubelet) list(context.Context, func() time.Time) (listing, error) {
	k.mu.Lock()
	if k.realTime {
		k.now = time.Now()
	}
	if left := k.until.Sub(k.now); left > 0 {
		k.mu.Unlock()
		return listing{}, &startingError{left}
	}
	k.calls++
	l, absent, during := listing{began: k.now, kubeletUp: k.up, pods: k.pods}, k.absent, k.during
	k.mu.Unlock()
	if absent {
		return listing{}, errNoKubelet
	}
	if during != nil {
		during()
	}
	return l, nil
}

// get implements lister.
func (k *kubelet) get(_ context.Context, namespace, name string) (*podresourcesv1.PodResources, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gets++
	if i := slices.IndexFunc(k.pods, func(p *podresourcesv1.PodResources) bool { return p.GetNamespace() == namespace && p.GetName() == name }); i >= 0 && !k.noGet {
		return k.pods[i], nil
	}
	return nil, errNoKubelet
}

// allocatable implements lister.
func (k *kubelet) allocatable(context.Context) ([]*podresourcesv1.ContainerDevices, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.absent {
		return nil, errNoKubelet
	}
	return k.devices, nil
}

// shows makes kubelet list these pods, and one that holds nothing of ours.
func (k *kubelet) shows(pods ...*podresourcesv1.PodResources) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = append([]*podresourcesv1.PodResources{pod("other")}, pods...)
}

func options(t testing.TB, k *kubelet) Options {
	t.Helper()
	return Options{
		Path: filepath.Join(t.TempDir(), "usage"), BootID: "boot-1", Socket: "/nowhere",
		Resolve: func(resource, unit string) (inventory.Key, bool) {
			return unitOf(unit).Device, resource == gpu && !strings.HasPrefix(unit, "strange")
		},
		Now: k.clock,
	}
}

func open(t testing.TB, k *kubelet, opts Options) *Book {
	t.Helper()
	b, err := Open(opts)
	must(t, err)
	b.poller.lister = k
	return b
}

// users are the units of a device that are allocated, each with a container that is listed.
func users(b *Book, device string) []string {
	var all []string
	for _, a := range b.AllocationsOf(key(device)) {
		if len(a.Containers) == 0 {
			all = append(all, a.Unit)
		}
		for _, c := range a.Containers {
			all = append(all, a.Unit+" "+c.Namespace+"/"+c.Pod+"/"+c.Name)
		}
	}
	return all
}

// complete reports whether kubelet's list has been read since the book was opened.
func complete(b *Book) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unconfirmed.complete
}

// endedKeys are the devices of holders that ended, which were not sent yet.
func endedKeys(b *Book) []inventory.Key {
	var keys []inventory.Key
	for _, e := range b.unsent() {
		keys = append(keys, e.Device)
	}
	return keys
}

func poll(t testing.TB, b *Book) {
	t.Helper()
	must(t, b.pollOnce(t.Context()))
}

func allocate(t testing.TB, b *Book, units ...string) {
	t.Helper()
	var given []Unit
	for _, u := range units {
		given = append(given, unitOf(u))
	}
	take(t, b, gpu, given)
}

// take gives the units to a new holder.
func take(t testing.TB, b *Book, resource string, units []Unit) {
	t.Helper()
	must(t, b.Take(t.Context(), resource, units))
}

// server is kubelet's pod-resources API on a real socket.
type server struct {
	podresourcesv1.UnimplementedPodResourcesListerServer
	mu   sync.Mutex
	pods []*podresourcesv1.PodResources
	hang chan struct{} // if set, List waits until it is closed or the call ends
	// during runs while a call is served.
	during func()
}

func (s *server) List(ctx context.Context, _ *podresourcesv1.ListPodResourcesRequest) (*podresourcesv1.ListPodResourcesResponse, error) {
	s.mu.Lock()
	pods, hang, during := s.pods, s.hang, s.during
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return nil, ctx.Err() // the server may see the deadline before the client does
		}
	}
	if during != nil {
		during()
	}
	return &podresourcesv1.ListPodResourcesResponse{PodResources: pods}, nil
}

func (s *server) set(pods ...*podresourcesv1.PodResources) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = pods
}

// serve serves until stop; the socket is gone then, as when kubelet ends.
func (s *server) serve(t testing.TB, socket string) (stop func()) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(socket), 0o700))
	listener, err := net.Listen("unix", socket)
	must(t, err)
	g := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	podresourcesv1.RegisterPodResourcesListerServer(g, s)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(listener) }()
	return sync.OnceFunc(func() { g.Stop(); <-done })
}

// socketDir is short enough for a socket's path.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "u")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

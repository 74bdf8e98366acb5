package podresources

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

var errNoKubelet = errors.New("no kubelet")

// pod is a pod with one container, "main", that has these units of gpu.
func pod(name string, units ...string) *podresourcesv1.PodResources {
	container := &podresourcesv1.ContainerResources{Name: "main"}
	for _, unit := range units {
		// One entry for each NUMA node, as kubelet does.
		for range 2 {
			container.Devices = append(container.Devices, &podresourcesv1.ContainerDevices{ResourceName: gpu, DeviceIds: []string{unit}})
		}
	}
	return &podresourcesv1.PodResources{Name: name, Namespace: "ns", Containers: []*podresourcesv1.ContainerResources{container}}
}

// double is a Lister that a test moves by hand; time.Now is its clock.
type double struct {
	mu      sync.Mutex
	up      time.Duration
	pods    []*podresourcesv1.PodResources
	absent  bool
	calls   int
	devices []*podresourcesv1.ContainerDevices
	// until is when kubelet may be asked, if it has just started.
	until  time.Time
	during func() // called while the list is made
}

func newDouble(pods ...*podresourcesv1.PodResources) *double {
	d := &double{up: time.Hour}
	d.shows(pods...)
	return d
}

// shows makes kubelet list these pods, and one that holds nothing of ours.
func (d *double) shows(pods ...*podresourcesv1.PodResources) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pods = append([]*podresourcesv1.PodResources{pod("other")}, pods...)
}

func (d *double) List(context.Context, func() time.Time) (List, error) {
	d.mu.Lock()
	if left := time.Until(d.until); left > 0 {
		d.mu.Unlock()
		return List{}, &startingError{left}
	}
	d.calls++
	l, absent, during := List{Began: time.Now(), KubeletUp: d.up, Pods: d.pods}, d.absent, d.during
	d.mu.Unlock()
	if absent {
		return List{}, errNoKubelet
	}
	if during != nil {
		during()
	}
	return l, nil
}

func (*double) Get(context.Context, string, string) (*podresourcesv1.PodResources, error) {
	return nil, errNoKubelet
}

func (d *double) Allocatable(context.Context) ([]*podresourcesv1.ContainerDevices, error) {
	if d.absent {
		return nil, errNoKubelet
	}
	return d.devices, nil
}

// owner follows the unit a of gpu.
type owner struct {
	*Kubelet
	mu               sync.Mutex
	presence         Presence
	gone, conclusive bool
}

func follow(opts Options) *owner {
	o := &owner{Kubelet: New(opts), presence: Presence{Since: time.Now()}}
	o.Follow(o.apply)
	return o
}

func (o *owner) apply(l List) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conclusive = l.Conclusive()
	if containers, there := l.Units()[Unit{gpu, "a"}]; there {
		o.presence.See(l, containers)
		return
	}
	gone, changed := o.presence.Miss(l)
	o.gone = o.gone || gone
	if changed {
		o.Soon()
	}
}

// is reports whether the owner is gone.
func (o *owner) is() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.gone
}

func poll(t testing.TB, o *owner) {
	t.Helper()
	must(t, o.Poll(t.Context()))
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

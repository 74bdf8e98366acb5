package holders

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/podresources"
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

// kubelet is a Lister that a test moves by hand, with its clock.
type kubelet struct {
	mu     sync.Mutex
	now    time.Time
	up     time.Duration
	pods   []*podresourcesv1.PodResources
	absent bool
	calls  int
	// gets counts the calls of Get, which noGet makes fail.
	gets  int
	noGet bool
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

// List implements podresources.Lister.
func (k *kubelet) List(context.Context, func() time.Time) (podresources.List, error) {
	k.mu.Lock()
	if k.realTime {
		k.now = time.Now()
	}
	k.calls++
	l, absent, during := podresources.List{Began: k.now, KubeletUp: k.up, Pods: k.pods}, k.absent, k.during
	k.mu.Unlock()
	if absent {
		return podresources.List{}, errNoKubelet
	}
	if during != nil {
		during()
	}
	return l, nil
}

// Get implements podresources.Lister.
func (k *kubelet) Get(_ context.Context, namespace, name string) (*podresourcesv1.PodResources, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gets++
	if i := slices.IndexFunc(k.pods, func(p *podresourcesv1.PodResources) bool { return p.GetNamespace() == namespace && p.GetName() == name }); i >= 0 && !k.noGet {
		return k.pods[i], nil
	}
	return nil, errNoKubelet
}

// Allocatable implements podresources.Lister.
func (k *kubelet) Allocatable(context.Context) ([]*podresourcesv1.ContainerDevices, error) {
	return nil, errNoKubelet
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
		Path: filepath.Join(t.TempDir(), "usage"), BootID: "boot-1", Kubelet: pods(k, podresources.Options{}),
		Resolve: func(resource, unit string) (inventory.Key, bool) {
			return unitOf(unit).Device, resource == gpu && !strings.HasPrefix(unit, "strange")
		},
		Now: k.clock,
	}
}

// pods is what the double says of its pods.
func pods(k *kubelet, opts podresources.Options) *podresources.Kubelet {
	opts.Lister, opts.Now = k, k.clock
	return podresources.New(opts)
}

func open(t testing.TB, _ *kubelet, opts Options) *Book {
	t.Helper()
	b, err := Open(opts)
	must(t, err)
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
	must(t, b.opts.Kubelet.Poll(t.Context()))
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

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

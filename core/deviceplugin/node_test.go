package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/core/filewatch"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/test/patience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const gpu = "example.com/gpu"

// fast are intervals for tests: short, but long enough to tell apart. What bounds what
// others do, kubelet or the machine, is long.
var fast = Timing{
	Register: patience.Long, Connect: patience.Long, Shutdown: patience.Long,
	Grace: 20 * time.Millisecond, Backoff: 5 * time.Millisecond,
	MaxBackoff: 100 * time.Millisecond, Poll: 50 * time.Millisecond, MinInterval: 2 * time.Millisecond,
}

// node is a stand-in kubelet and a plugin in one directory.
type node struct {
	t       *testing.T
	dir     string
	kubelet *kubelettest.Kubelet
	plugin  *Plugin
	life    *recorder

	end  func() error
	once sync.Once

	mu     sync.Mutex
	events []kubelettest.Event
}

// newNode makes a node whose kubelet and plugin have not started.
func newNode(t *testing.T, timing Timing, legacy bool) *node {
	t.Helper()
	dir, err := os.MkdirTemp("", "x")
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, dir: dir, life: &recorder{}}
	n.kubelet = kubelettest.New(dir, kubelettest.Options{
		Legacy: legacy,
		OnEvent: func(e kubelettest.Event) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.events = append(n.events, e)
		},
		Timing: kubelettest.Timing{Reconcile: 10 * time.Millisecond, RegisterBackoff: 20 * time.Millisecond},
	})
	files := filewatch.New(slog.New(slog.DiscardHandler))
	n.plugin, err = New(Options{
		Dir: n.kubelet.PluginDir(), RegistryDir: n.kubelet.RegistryDir(), Lifecycle: n.life, Files: files, Timing: timing,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.kubelet.Stop()
		if err := errors.Join(files.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	return n
}

// startNode makes a node with both running.
func startNode(t *testing.T, timing Timing) *node {
	t.Helper()
	n := newNode(t, timing, false)
	n.startKubelet()
	n.run()
	return n
}

func (n *node) startKubelet() {
	n.t.Helper()
	if err := n.kubelet.Start(); err != nil {
		n.t.Fatal(err)
	}
}

// run starts the plugin; at the end of the test it must end in time and leave
// no socket behind.
func (n *node) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.plugin.Run(ctx) }()
	n.end = func() (err error) {
		n.once.Do(func() {
			cancel()
			err = <-done
		})
		return err
	}
	n.t.Cleanup(func() {
		if err := n.end(); err != nil {
			n.t.Errorf("Run: %v", err)
		}
		if left := n.sockets(); len(left) > 0 {
			n.t.Errorf("sockets left behind: %v", left)
		}
		if s := n.kubelet.State(); s.Counts.Duplicates > 0 {
			n.t.Errorf("kubelet saw %d registrations of a socket that it knew", s.Counts.Duplicates)
		}
	})
}

// sockets are our socket files in both directories.
func (n *node) sockets() []string {
	var all []string
	for _, dir := range []string{n.kubelet.PluginDir(), n.kubelet.RegistryDir()} {
		found, err := filepath.Glob(filepath.Join(dir, socketPrefix+"*"))
		if err != nil {
			n.t.Error(err)
		}
		all = append(all, found...)
	}
	return all
}

func (n *node) recorded() []kubelettest.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.events)
}

func (n *node) waitFor(what string, condition func(kubelettest.State) bool) {
	n.t.Helper()
	for limit := patience.NewLimit(patience.Long); ; {
		ctx, cancel := context.WithTimeout(n.t.Context(), time.Second)
		err := n.kubelet.WaitFor(ctx, condition)
		cancel()
		if err == nil {
			return
		}
		if limit.Over() {
			n.t.Fatalf("%s: %v\nstatus: %+v", what, err, n.plugin.Status())
		}
	}
}

func (n *node) waitAllocatable(want int) {
	n.t.Helper()
	n.waitFor(fmt.Sprintf("%d allocatable", want), func(s kubelettest.State) bool {
		r := s.Resources[gpu]
		return r.Allocatable == want && r.Connections > 0 && r.Updates > 0
	})
}

// waitStatus waits for what the stand-in does not see.
func (n *node) waitStatus(what string, condition func(Status) bool) Status {
	n.t.Helper()
	var all []Status
	if !patience.Within(patience.Long, func() bool {
		all = n.plugin.Status()
		return len(all) > 0 && condition(all[0])
	}) {
		n.t.Fatalf("%s: status is %+v", what, all)
	}
	return all[0]
}

// dial connects to the socket that the plugin serves now.
func (n *node) dial() pluginapi.DevicePluginClient {
	n.t.Helper()
	s := n.waitStatus("a socket", func(s Status) bool { return s.State == StateServing && s.Socket != "" })
	conn, err := grpc.NewClient("unix:"+s.Socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close() })
	return pluginapi.NewDevicePluginClient(conn)
}

// recorder is a Lifecycle that notes its calls.
type recorder struct {
	mu        sync.Mutex
	allocated []string
	prepared  []string
	returned  []string
	own       string
	err       error
	// refused is a unit that Take refuses, unprepared one that needs no Prepare.
	refused, unprepared string
	block               chan struct{} // Take waits for it if it is not nil
	entered             chan struct{}
}

func (r *recorder) Take(_ context.Context, of lifecycle.Request) (string, error) {
	if r.block != nil {
		r.entered <- struct{}{}
		<-r.block
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(of.Units, func(u lifecycle.Unit) bool { return u.ID == r.refused }) {
		return "", errors.New("the device is being reset")
	}
	for _, u := range of.Units {
		r.allocated = append(r.allocated, of.Resource+" "+u.ID)
	}
	return r.own, r.err
}

func (r *recorder) Unprepared(_ string, units []string) bool {
	return slices.Equal(units, []string{r.unprepared})
}

func (r *recorder) Return(of lifecycle.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range of.Units {
		r.returned = append(r.returned, of.Resource+" "+u.ID)
	}
}

func (r *recorder) Prepare(_ context.Context, of lifecycle.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, u := range of.Units {
		if u.Device.Hooks.Prepare {
			r.prepared = append(r.prepared, of.Resource+" "+u.ID)
		}
	}
	return r.err
}

// allNames gives every device a CDI name but for those listed.
type allNames []string

func (missing allNames) Qualified(k inventory.Key) (string, error) {
	if slices.Contains(missing, k.ID) {
		return "", errors.New("its definition could not be written: disk full")
	}
	return "accelmux.io/mock=" + k.ID, nil
}

// device is a healthy device.
func device(id string, nodes ...int) *inventory.Device {
	return &inventory.Device{
		Key: inventory.Key{Backend: "mock", ID: id}, Class: "gpu", NUMANodes: nodes,
		Edits: inventory.Edits{Env: inventory.Named(map[string]string{"DEVICE": id})},
	}
}

func gpus(n int) []*inventory.Device {
	devices := make([]*inventory.Device, n)
	for i := range devices {
		devices[i] = device(fmt.Sprintf("gpu-%d", i), i%2)
	}
	return devices
}

// table is one resource with these devices; change may be nil. Devices whose
// Health says unhealthy have an unhealthy verdict.
func table(devices []*inventory.Device, change func(*resource.Resource)) *resource.Table {
	r := &resource.Resource{
		Resource: config.Resource{Name: gpu, Injection: config.InjectCDI, Registration: config.RegisterSocket, Replicas: 1},
	}
	if change != nil {
		change(r)
	}
	for _, d := range devices {
		verdict := health.Verdict{Healthy: d.Health.State != inventory.StateUnhealthy}
		if !verdict.Healthy {
			verdict.Faults = []health.Fault{{Code: d.Health.Code, Message: d.Health.Message}}
		}
		r.Devices = append(r.Devices, resource.Device{Device: d, Verdict: verdict})
	}
	return &resource.Table{Resources: []*resource.Resource{r}}
}

// broken is d with a fault.
func broken(d *inventory.Device) *inventory.Device {
	out := *d
	out.Health = inventory.Health{State: inventory.StateUnhealthy, Code: "xid-79", Message: "fell off the bus"}
	return &out
}

// hooked is d with a Prepare hook.
func hooked(d *inventory.Device) *inventory.Device {
	out := *d
	out.Hooks.Prepare = true
	return &out
}

func hasNote(s Status, part string) bool {
	return slices.ContainsFunc(s.Notes, func(n string) bool { return strings.Contains(n, part) })
}

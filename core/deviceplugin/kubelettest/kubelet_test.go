package kubelettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet checks version and name, and connects before it answers.
func TestRegisterRefuses(t *testing.T) {
	k := start(t, func(o *Options) { o.Timing.Dial = 100 * time.Millisecond }) // there is nobody to be dialled
	serve(t, k.PluginDir(), "p.sock", nil)
	for name, tc := range map[string]struct {
		change func(*pluginapi.RegisterRequest)
		says   string
	}{
		"version":           {func(r *pluginapi.RegisterRequest) { r.Version = "v1alpha" }, "not supported"},
		"no domain":         {func(r *pluginapi.RegisterRequest) { r.ResourceName = "gpu" }, "invalid"},
		"kubernetes.io":     {func(r *pluginapi.RegisterRequest) { r.ResourceName = "a.kubernetes.io/gpu" }, "invalid"},
		"requests":          {func(r *pluginapi.RegisterRequest) { r.ResourceName = "requests.a.io/gpu" }, "invalid"},
		"two slashes":       {func(r *pluginapi.RegisterRequest) { r.ResourceName = "a.io/b/c" }, "invalid"},
		"name too long":     {func(r *pluginapi.RegisterRequest) { r.ResourceName = "a.io/" + strings.Repeat("x", 64) }, "invalid"},
		"domain too long":   {func(r *pluginapi.RegisterRequest) { r.ResourceName = strings.Repeat("a", 245) + "/x" }, "invalid"},
		"nobody is serving": {func(r *pluginapi.RegisterRequest) { r.Endpoint = "absent.sock" }, "failed to dial"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("p.sock")
			tc.change(r)
			if err := register(t, k, r); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error is %v, want %q", err, tc.says)
			}
		})
	}
	if c := k.State().Counts; c.Registered != 0 || c.Refused != 8 {
		t.Errorf("counts are %+v", c)
	}
	for _, good := range []string{"ex.com/mig-1g.10gb", "ex.com/Mixed"} {
		if err := validate(good, []string{"v1beta1"}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

// The second Register of one socket is refused, and the first connection lost
// sight of: when it breaks, nobody notices, until a restart.
func TestDuplicateSocket(t *testing.T) {
	k := start(t, nil)
	p := connect(t, k, "p.sock", nil, 3)
	if err := register(t, k, request("p.sock")); err == nil || !strings.Contains(err.Error(), "device plugin already connected") {
		t.Fatalf("error is %v", err)
	}
	if c := k.State().Counts; c.Duplicates != 1 {
		t.Errorf("counts are %+v", c)
	}
	close(p.broken)
	wait(t, k, func(s State) bool { return s.Counts.Broken == 1 })
	if r := k.State().Resources[gpu]; r.Allocatable != 3 || r.Connections != 1 {
		t.Errorf("the loss was noticed: %+v", r)
	}
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	if r := k.State().Resources[gpu]; r.Allocatable != 0 || r.Connections != 0 {
		t.Errorf("after the restart: %+v", r)
	}
}

func TestDuplicateSocketLegacy(t *testing.T) {
	k := start(t, func(o *Options) { o.Legacy = true })
	connect(t, k, "p.sock", nil, 3)
	if err := register(t, k, request("p.sock")); err != nil {
		t.Errorf("1.36 refuses: %v", err)
	}
}

// The options that count are those of the connection, not of the request.
func TestOptionsOfTheConnection(t *testing.T) {
	k := start(t, nil)
	serve(t, k.PluginDir(), "p.sock", &pluginapi.DevicePluginOptions{PreStartRequired: true})
	r := request("p.sock")
	r.Options = &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
	if err := register(t, k, r); err != nil {
		t.Fatal(err)
	}
	if got := k.State().Resources[gpu]; !got.PreStartRequired || got.PreferredAllocation {
		t.Errorf("options are %+v", got)
	}
}

// A restart deletes top-level sockets only, forgets lists and keeps allocations.
func TestRestart(t *testing.T) {
	k := start(t, nil)
	connect(t, k, "p.sock", nil, 3)
	if err := os.WriteFile(filepath.Join(k.PluginDir(), "file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(k.PluginDir(), "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	serve(t, filepath.Join(k.PluginDir(), "dir"), "p.sock", nil)
	serve(t, k.RegistryDir(), ".hidden.sock", nil)
	before, err := k.Allocate(t.Context(), "p", "c", gpu, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	for path, stays := range map[string]bool{
		"p.sock": false, "file.sock": true, "dir/p.sock": true, "kubelet.sock": true, "../plugins_registry/.hidden.sock": true,
	} {
		if _, err := os.Lstat(filepath.Join(k.PluginDir(), path)); (err == nil) != stays {
			t.Errorf("%s is there: %v, want %v", path, err == nil, stays)
		}
	}
	if r, known := k.State().Resources[gpu]; !known || r.Capacity != 0 || r.Allocated != 2 {
		t.Errorf("the resource is %+v", r)
	}
	if _, err := k.Allocate(t.Context(), "q", "c", gpu, 1); err == nil {
		t.Error("an allocation without devices")
	}
	after, err := k.Allocate(t.Context(), "p", "c", gpu, 2)
	if err != nil || !slices.Equal(before.Devices, after.Devices) {
		t.Errorf("the pod had %v and has %v: %v", before.Devices, after, err)
	}
	if s, err := k.StartContainer(t.Context(), "p", "c"); err != nil || len(s.CDIDevices) != 2 {
		t.Errorf("a container restart gives %+v: %v", s, err)
	}
}

// A killed kubelet leaves a socket that refuses; a stopped one leaves none.
func TestKillAndStop(t *testing.T) {
	k := start(t, nil)
	socket := filepath.Join(k.PluginDir(), "kubelet.sock")
	k.Kill()
	if _, err := net.Dial("unix", socket); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Kill: %v", err)
	}
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	k.Stop()
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Stop: %v", err)
	}
	k.Stop()
}

// A broken stream, for whatever reason, makes all devices unhealthy; after a
// while the resource is gone.
func TestBrokenStream(t *testing.T) {
	for name, tear := range map[string]func(*testing.T, *Kubelet, *stub){
		"the plugin ends it": func(_ *testing.T, _ *Kubelet, p *stub) { close(p.broken) },
		"a fault":            func(_ *testing.T, k *Kubelet, _ *stub) { k.Disconnect(gpu) },
		"a list over 4 MiB": func(t *testing.T, _ *Kubelet, p *stub) {
			p.send(t, &pluginapi.Device{ID: strings.Repeat("x", 4<<20), Health: pluginapi.Healthy})
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, nil)
			p := connect(t, k, "p.sock", nil, 3)
			if _, err := k.Allocate(t.Context(), "p", "c", gpu, 1); err != nil {
				t.Fatal(err)
			}
			tear(t, k, p)
			wait(t, k, func(s State) bool {
				r := s.Resources[gpu]
				return r.Capacity == 3 && r.Allocatable == 0 && r.Socket == ""
			})
			if _, err := k.Allocate(t.Context(), "q", "c", gpu, 1); err == nil {
				t.Error("an allocation of unhealthy devices")
			}
			k.mu.Lock()
			k.timing.StopGrace = time.Nanosecond
			k.mu.Unlock()
			if _, known := k.State().Resources[gpu]; known {
				t.Error("the resource is still there")
			}
		})
	}
}

// Two connections: the last list counts, and when the newer one breaks the older
// takes over. In 1.36 the end of the older takes the newer with it.
func TestTwoConnections(t *testing.T) {
	for name, legacy := range map[string]bool{"1.37": false, "1.36": true} {
		t.Run(name, func(t *testing.T) {
			k := start(t, func(o *Options) { o.Legacy = legacy })
			older := connect(t, k, "older.sock", nil, 3)
			newer := connect(t, k, "newer.sock", nil, 4)
			older.send(t, healthy(2)...)
			wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 2 })
			newer.send(t, healthy(5)...)
			wait(t, k, func(s State) bool { return s.Resources[gpu].Allocatable == 5 })
			close(older.broken)
			if legacy {
				wait(t, k, func(s State) bool { return s.Counts.Broken == 2 })
				if got := k.Allocatable(gpu); got != 0 {
					t.Errorf("%d allocatable", got)
				}
				return
			}
			wait(t, k, func(s State) bool { return s.Resources[gpu].Connections == 1 })
			if r := k.State().Resources[gpu]; r.Allocatable != 5 || r.Socket != newer.path {
				t.Errorf("the resource is %+v", r)
			}
		})
	}
}

// The plugin's preference is asked for if it is offered, cut to what is there,
// and topped up.
func TestAllocatePreferred(t *testing.T) {
	k := start(t, nil)
	p := connect(t, k, "p.sock", &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}, 6)
	p.preferred = []string{"d4", "d1", "unknown"}
	a, err := k.Allocate(t.Context(), "p", "init", gpu, 2)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d1", "d4"}, a.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	p.preferred = []string{"d5", "d4"}
	a, err = k.Allocate(t.Context(), "p", "main", gpu, 4, "d1", "d4")
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Devices) != 4 || !slices.Contains(a.Devices, "d1") || !slices.Contains(a.Devices, "d4") || !slices.Contains(a.Devices, "d5") {
		t.Errorf("devices are %v", a.Devices)
	}
	asked := p.asked[1]
	if diff := cmp.Diff([]string{"d1", "d4"}, asked.GetMustIncludeDeviceIDs()); diff != "" || asked.GetAllocationSize() != 4 || len(asked.GetAvailableDeviceIDs()) != 6 {
		t.Errorf("asked %v", asked)
	}
	if _, err := k.Allocate(t.Context(), "q", "c", gpu, 3); err == nil || !strings.Contains(err.Error(), "unavailable") {
		t.Errorf("more than there is: %v", err)
	}
	if _, err := k.Allocate(t.Context(), "p", "main", gpu, 1); err == nil || !strings.Contains(err.Error(), "changed request") {
		t.Errorf("another count: %v", err)
	}
	if len(k.Allocations()) != 2 {
		t.Errorf("allocations are %v", k.Allocations())
	}
}

// Every start of a container is announced if the plugin wants it, and gets the
// same answers; of two resources that disagree the first wins.
func TestStartContainer(t *testing.T) {
	k := start(t, nil)
	p := connect(t, k, "p.sock", &pluginapi.DevicePluginOptions{PreStartRequired: true}, 2)
	q := serve(t, k.PluginDir(), "q.sock", nil)
	r := request("q.sock")
	r.ResourceName = "example.com/other"
	if err := register(t, k, r); err != nil {
		t.Fatal(err)
	}
	q.send(t, healthy(1)...)
	wait(t, k, func(s State) bool { return s.Resources["example.com/other"].Allocatable == 1 })
	for _, resource := range []string{gpu, "example.com/other"} {
		if _, err := k.Allocate(t.Context(), "p", "c", resource, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		s, err := k.StartContainer(t.Context(), "p", "c")
		if err != nil {
			t.Fatal(err)
		}
		if s.Envs["SHARED"] != "p.sock" || len(s.CDIDevices) == 0 {
			t.Errorf("settings are %+v", s)
		}
	}
	if p.started != 3 || q.started != 0 || k.State().Counts.Allocations != 2 {
		t.Errorf("%d and %d starts, %+v", p.started, q.started, k.State().Counts)
	}
	if _, err := k.StartContainer(t.Context(), "nobody", "c"); err == nil {
		t.Error("a container without devices started")
	}
}

// The pod-resources API shows allocations, one entry a NUMA node, until Free.
func TestPodResources(t *testing.T) {
	k := start(t, nil)
	p := connect(t, k, "p.sock", nil, 1)
	p.send(t, &pluginapi.Device{ID: "d0", Health: pluginapi.Healthy, Topology: &pluginapi.TopologyInfo{
		Nodes: []*pluginapi.NUMANode{{ID: 1}, {ID: 0}},
	}}, &pluginapi.Device{ID: "d1", Health: pluginapi.Unhealthy})
	wait(t, k, func(s State) bool { return s.Resources[gpu].Capacity == 2 })
	if _, err := k.Allocate(t.Context(), "ns/p", "c", gpu, 1); err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+k.PodResourcesSocket(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithAuthority("localhost"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	api := podresourcesapi.NewPodResourcesListerClient(conn)
	list, err := api.List(t.Context(), &podresourcesapi.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	pod := list.GetPodResources()[0]
	if pod.GetName() != "p" || pod.GetNamespace() != "ns" || len(pod.GetContainers()[0].GetDevices()) != 2 {
		t.Errorf("the pod is %v", pod)
	}
	all, err := api.GetAllocatableResources(t.Context(), &podresourcesapi.AllocatableResourcesRequest{})
	if err != nil || len(all.GetDevices()) != 2 || all.GetDevices()[0].GetDeviceIds()[0] != "d0" {
		t.Errorf("allocatable are %v: %v", all, err)
	}
	if _, err := api.Get(t.Context(), &podresourcesapi.GetPodResourcesRequest{PodName: "p", PodNamespace: "ns"}); err != nil {
		t.Error(err)
	}
	k.Free("ns/p")
	if _, err := api.Get(t.Context(), &podresourcesapi.GetPodResourcesRequest{PodName: "p", PodNamespace: "ns"}); err == nil {
		t.Error("a freed pod is found")
	}
	if list, err := api.List(t.Context(), &podresourcesapi.ListPodResourcesRequest{}); err != nil || len(list.GetPodResources()) != 0 {
		t.Errorf("after Free: %v: %v", list, err)
	}
}

// Events come in order, and WaitFor ends with its context.
func TestEventsAndWaitFor(t *testing.T) {
	var got []string
	k := start(t, func(o *Options) {
		o.OnEvent = func(e Event) { got = append(got, fmt.Sprintf("%s %d/%d", e.Type, e.Allocatable, e.Capacity)) }
	})
	connect(t, k, "p.sock", nil, 2)
	if _, err := k.Allocate(t.Context(), "p", "c", gpu, 1); err != nil {
		t.Fatal(err)
	}
	k.Free("p")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.WaitFor(ctx, func(State) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitFor: %v", err)
	}
	k.Stop()
	want := []string{"started 0/0", "registered 0/0", "devices updated 2/2", "allocated 2/2", "freed 0/0", "stopped 0/0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

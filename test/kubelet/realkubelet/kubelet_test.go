package realkubelet

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// start brings up a kubelet with two NUMA nodes in a short directory.
func start(t *testing.T) *Kubelet {
	t.Helper()
	if program.err != nil {
		t.Fatal(program.err)
	}
	dir, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	k := New(dir, Options{Program: program.path, NUMANodes: 2, Log: t.Output()})
	if err := k.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
	return k
}

// registered is a kubelet with a plug of n devices.
func registered(t *testing.T, n int) (*Kubelet, *plug) {
	t.Helper()
	k := start(t)
	p := startPlug(t, k.PluginDir(), "a.sock", devices(n))
	if err := p.register(soon(t), k.PluginDir()); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, k, int64(n), int64(n))
	return k, p
}

func wantCounts(t *testing.T, k *Kubelet, capacity, allocatable int64) {
	t.Helper()
	if _, err := k.WaitCounts(soon(t), foo, capacity, allocatable); err != nil {
		t.Fatal(err)
	}
}

func admit(t *testing.T, k *Kubelet, name string, n int64) *v1.Pod {
	t.Helper()
	pod := NewPod(name, map[string]int64{foo: n})
	if err := k.Admit(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestAdmitAligns verifies that the real topology manager decides: two devices
// come from one NUMA node, and a request that no node can serve is refused.
func TestAdmitAligns(t *testing.T) {
	k, _ := registered(t, 8)
	pod := admit(t, k, "two", 2)
	got := k.Devices(pod, "c", foo)
	if len(got) != 2 || got[0].NUMANodes[0] != got[1].NUMANodes[0] {
		t.Fatalf("devices %v; want two of one NUMA node", got)
	}
	err := k.Admit(t.Context(), NewPod("five", map[string]int64{foo: 5}))
	var rejected *AdmissionError
	if !errors.As(err, &rejected) || rejected.Reason != "TopologyAffinityError" {
		t.Fatalf("five of eight on two nodes: %v; want a TopologyAffinityError", err)
	}
}

// TestStartContainer verifies that a start calls PreStartContainer, and that the
// options carry what Allocate answered.
func TestStartContainer(t *testing.T) {
	k, p := registered(t, 2)
	pod := admit(t, k, "one", 1)
	p.failPreStart(errors.New("not clean"))
	if _, err := k.StartContainer(t.Context(), pod, "c"); err == nil || !strings.Contains(err.Error(), "not clean") {
		t.Fatalf("start: %v; want the plugin's reason", err)
	}
	p.failPreStart(nil)
	opts, err := k.StartContainer(t.Context(), pod, "c")
	if err != nil {
		t.Fatal(err)
	}
	if !CDIDevices.Can(k.Release()) {
		if len(opts.CDIDevices) > 0 {
			t.Errorf("CDI devices %v; %s", opts.CDIDevices, CDIDevices.Missing(k.Release()))
		}
		return
	}
	want := "example.com/foo=" + k.Devices(pod, "c", foo)[0].ID
	if len(opts.CDIDevices) != 1 || opts.CDIDevices[0].Name != want {
		t.Fatalf("CDI devices %v; want %s", opts.CDIDevices, want)
	}
}

// TestRestartKeepsAllocations verifies that a restart deletes the plugin's
// socket, keeps the checkpoint, and does not give a held device twice.
func TestRestartKeepsAllocations(t *testing.T) {
	k, p := registered(t, 2)
	pod := admit(t, k, "one", 1)
	if _, err := k.StartContainer(t.Context(), pod, "c"); err != nil {
		t.Fatal(err)
	}
	held := k.Devices(pod, "c", foo)[0].ID
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the plugin's socket after a restart: %v; want it gone", err)
	}
	wantCounts(t, k, 0, 0)
	again := startPlug(t, k.PluginDir(), "b.sock", devices(2))
	if err := again.register(soon(t), k.PluginDir()); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, k, 2, 2)
	if got := k.Devices(pod, "c", foo); len(got) != 1 || got[0].ID != held {
		t.Fatalf("the pod holds %v; want %s", got, held)
	}
	other := admit(t, k, "other", 1)
	if got := k.Devices(other, "c", foo); len(got) != 1 || got[0].ID == held {
		t.Fatalf("the second pod was given %v; %s is held", got, held)
	}
}

// TestHealthReachesPodStatus verifies that a device's health shows in the counts
// and in the status of the pod that holds it.
func TestHealthReachesPodStatus(t *testing.T) {
	k, p := registered(t, 2)
	pod := admit(t, k, "one", 1)
	held := k.Devices(pod, "c", foo)[0].ID
	sick := devices(2)
	for _, d := range sick {
		if d.ID == held {
			d.Health = pluginapi.Unhealthy
		}
	}
	record := k.Record(foo, time.Millisecond)
	p.publish(sick)
	wantCounts(t, k, 2, 1)
	if !HealthStatus.Can(k.Release()) {
		if got := k.PodHealth(pod); len(got) > 0 {
			t.Errorf("health in the pod's status is %v; %s", got, HealthStatus.Missing(k.Release()))
		}
	} else if got := k.PodHealth(pod)[held]; got != v1.ResourceHealthStatusUnhealthy {
		t.Fatalf("health of %s in the pod's status is %q; want Unhealthy", held, got)
	}
	p.publish(nil)
	wantCounts(t, k, 0, 0)
	if _, err := Poll(soon(t), func() bool { return record.Samples() > 2 }); err != nil {
		t.Fatal(err)
	}
	if _, changes := record.Stop(); len(changes) == 0 || changes[0].Counts.Capacity != 2 {
		t.Fatalf("recording %v; want it to begin with capacity 2", changes)
	}
}

// TestCrash verifies that kubelet can be killed: its socket stays and nobody answers,
// the next one finds the allocations, and one that is stopped says that it is not
// there.
func TestCrash(t *testing.T) {
	k, _ := registered(t, 2)
	pod := admit(t, k, "one", 1)
	held := k.Devices(pod, "c", foo)
	if _, err := k.StartContainer(t.Context(), pod, "c"); err != nil {
		t.Fatal(err)
	}
	k.RemovePod(admit(t, k, "gone", 1))
	admit(t, k, "not-started", 1)
	if err := k.Crash(); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("unix", filepath.Join(k.PluginDir(), "kubelet.sock")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the dead kubelet's socket: %v, %v; want it there, and nobody behind it", conn, err)
	}
	if err := k.Admit(t.Context(), NewPod("two", nil)); err == nil {
		t.Error("a dead kubelet has admitted a pod")
	}
	// Nothing is healthy before the plugin has registered: kubelet would kill a pod
	// that has no container yet.
	var refused *AdmissionError
	if err := k.Start(); !errors.As(err, &refused) || refused.Reason != "UnexpectedAdmissionError" {
		t.Fatalf("start: %v; want that a pod is refused", err)
	}
	if got := k.Devices(pod, "c", foo); len(got) != 1 || got[0].ID != held[0].ID {
		t.Errorf("the pod holds %v, held %v", got, held)
	}
	if pods := k.Pods(); len(pods) != 1 || pods[0].Name != "one" {
		t.Errorf("pods %v; want the one", pods)
	}
}

// TestPluginWatcher verifies that a socket in the registry is found without a
// Register call, and found again after a restart.
func TestPluginWatcher(t *testing.T) {
	k := start(t)
	if _, err := Poll(soon(t), func() bool {
		_, err := os.Stat(k.RegistryDir())
		return err == nil
	}); err != nil {
		t.Fatal("the registry directory did not appear")
	}
	startPlug(t, k.RegistryDir(), "foo.sock", devices(4))
	wantCounts(t, k, 4, 4)
	if err := k.Restart(); err != nil {
		t.Fatal(err)
	}
	wantCounts(t, k, 4, 4)
}

// TestPodResourcesSeesRelease verifies that List names what a pod holds, and no
// longer once the pod is gone.
func TestPodResourcesSeesRelease(t *testing.T) {
	k, _ := registered(t, 4)
	pod := admit(t, k, "one", 2)
	if got := listed(t.Context(), t, k); got != 2 {
		t.Fatalf("List names %d devices; want 2", got)
	}
	k.RemovePod(pod)
	if got := listed(t.Context(), t, k); got != 0 {
		t.Fatalf("List names %d devices after the pod was removed; want none", got)
	}
	admit(t, k, "next", 2)
}

func listed(ctx context.Context, t *testing.T, k *Kubelet) int {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.ToSlash(k.PodResourcesSocket()), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with it
	answer, err := podresourcesv1.NewPodResourcesListerClient(conn).List(ctx, &podresourcesv1.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, pod := range answer.PodResources {
		for _, c := range pod.Containers {
			for _, d := range c.Devices {
				n += len(d.DeviceIds)
			}
		}
	}
	return n
}

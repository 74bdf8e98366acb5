package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/test/devicemanager"
)

// Verifies that the watch sees dips and faults that are gone in what a kubelet answers,
// but not in an answer that may be older than what must hold.
func TestSample(t *testing.T) {
	w := newWatch()
	bad := map[string]devicemanager.Resource{gpuName: {Healthy: []string{"a-0"}, Unhealthy: []string{"a-1"}}}
	before := w.now()
	w.rest(map[string]int{gpuName: 2}, map[string]string{"a-0": "reboot"})
	if w.sample(before, bad); len(w.seen()) > 0 {
		t.Errorf("an old answer counts: %v", w.seen())
	}
	w.sample(w.now(), bad)
	if got := slices.Sorted(maps.Keys(w.seen())); !slices.Equal(got, []string{faultSticks, othersUntouched}) {
		t.Errorf("seen %v", w.seen())
	}
	w = newWatch()
	w.rest(map[string]int{gpuName: 2}, nil)
	w.spare(gpuName)
	if w.sample(w.now(), bad); len(w.seen()) > 0 {
		t.Errorf("a resource that may change counts: %v", w.seen())
	}
}

// Verifies that an allocation is read from the checkpoint as kubelet writes it, and
// that one which is not there is waited for no longer than allowed.
func TestCheckpointed(t *testing.T) {
	k := &realKubelet{dir: t.TempDir()}
	answer, err := proto.Marshal(&pluginapi.ContainerAllocateResponse{CdiDevices: []*pluginapi.CDIDevice{{Name: "v/c=d"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(k.PluginDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Appendf(nil, `{"Data": {"PodDeviceEntries": [{"PodUID": "other"}, {"PodUID": "pod-1", "ContainerName": "main", "ResourceName": %q,
		"DeviceIDs": {"0": ["a-1"], "-1": ["a-0"]}, "AllocResp": %q}], "RegisteredDevices": {}}, "Checksum": 1}`, gpuName, base64.StdEncoding.EncodeToString(answer))
	if err := os.WriteFile(filepath.Join(k.PluginDir(), "kubelet_internal_checkpoint"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := k.checkpointed(t.Context(), "pod-1")
	if err != nil || a.Resource != gpuName || !slices.Equal(a.Devices, []string{"a-0", "a-1"}) || a.Response.GetCdiDevices()[0].GetName() != "v/c=d" {
		t.Errorf("read %+v, %v", a, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := k.checkpointed(ctx, "pod-2"); err == nil {
		t.Error("a pod that is not in it was found")
	}
}

// Verifies that sockets count to which somebody is connected, each once.
func TestConnected(t *testing.T) {
	dir := t.TempDir()
	var opened []io.Closer
	defer func() {
		for _, c := range opened {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	}()
	for i, clients := range []int{0, 1, 2} {
		path := fmt.Sprintf("%s/.accelmux-%d", dir, i)
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		opened = append(opened, listener)
		for range clients {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			opened = append(opened, conn)
			accepted, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			opened = append(opened, accepted)
		}
	}
	if got := connected(dir); !slices.Equal(got, []string{".accelmux-1", ".accelmux-2"}) {
		t.Errorf("%q are connected, want the last two", got)
	}
}

// Verifies that a registration of a socket that kubelet is connected to is counted once,
// however its lines come in, and that only the last lines are kept.
func TestKubeletLog(t *testing.T) {
	l := &kubeletLog{}
	refused := `E1121 server.go:85] "Failed to connect to new client" err="device plugin already connected: /x.sock" resource="example.com/gpu"` + "\n" +
		`E1121 server.go:177] "Error connecting to device plugin client" err="device plugin already connected: /x.sock"` + "\n"
	for _, part := range []string{refused[:50], refused[50:130], refused[130:]} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if got := l.duplicates(); got != 1 {
		t.Errorf("%d registered twice, want 1", got)
	}
	for i := range 2 * keptLines {
		_, _ = fmt.Fprintf(l, "line %d\n", i)
	}
	if len(l.lines) != keptLines || l.lines[0] != fmt.Sprintf("line %d", keptLines) {
		t.Errorf("%d lines are kept, from %q on", len(l.lines), l.lines[0])
	}
}

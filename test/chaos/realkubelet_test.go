package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

// Verifies that the watch sees dips and faults that are gone in what a kubelet answers,
// but not in an answer that may be older than what must hold.
func TestSample(t *testing.T) {
	w := newWatch()
	bad := map[string]wire.Resource{gpuName: {Healthy: []string{"a-0"}, Unhealthy: []string{"a-1"}}}
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

// Verifies that a registration of a socket that kubelet is connected to is counted once,
// however its lines come in.
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
}

package deviceplugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Verifies the pause between registrations that fail after a stream that lived long: its
// life is a reason to begin with a short pause once, not at each failure.
func TestBackoffAfterLongStream(t *testing.T) {
	timing := fast
	timing.Backoff, timing.MaxBackoff = 100*time.Millisecond, 100*time.Millisecond
	n := startNode(t, timing)
	n.plugin.Publish(table(gpus(2), nil), allNames{})
	n.waitAllocatable(2)
	<-time.After(timing.MaxBackoff) // the stream lives that long
	n.kubelet.Stop()
	fake := newMutedKubelet()
	fake.err = status.Error(codes.Unknown, "the name is taken")
	defer fake.serve(n)()
	const failures = 8
	var first time.Time
	for i := range failures {
		<-fake.calls
		<-fake.left
		if i == 0 {
			first = time.Now()
		}
	}
	// Half of each pause is jitter, and the first may begin before the first call is noticed.
	if took, least := time.Since(first), (failures-2)*timing.Backoff/2; took < least {
		t.Errorf("%d registrations were tried within %v; want %v at least", failures, took, least)
	}
}

// Verifies that each try to listen fails with the same words: what differs is logged each
// time, and the log of a read-only directory would grow for as long as it is that.
func TestListenErrorRepeats(t *testing.T) {
	n := newNode(t, fast, false)
	file := filepath.Join(n.dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := newAdvert(gpu, newView(table(gpus(1), nil).Resources[0], allNames{}, nil), n.plugin)
	var texts []string
	for range 2 {
		_, err := newInstance(a, "", n.plugin.sockets.next(file, gpu), fileID{}, nil)
		if err == nil {
			t.Fatal("a socket is served in a file")
		}
		texts = append(texts, err.Error())
	}
	if texts[0] != texts[1] || !strings.Contains(texts[0], file) {
		t.Errorf("errors are %q; want the same, with the directory", texts)
	}
}

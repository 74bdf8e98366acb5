package injection_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/injection"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

// bubble is a watcher that runs in a synctest bubble, and the API server that it asks.
type bubble struct {
	*injection.Watcher
	server *clustertest.Server
	t      *testing.T
}

func inBubble(t *testing.T, test func(bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, "node-1", map[string]string{})
		w := injection.New(injection.Options{Nodes: server.Client(t), Node: "node-1"})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		test(bubble{w, server, t})
	})
}

const some = -1

// after waits, and wants that choice, for a reason with these words, within requests
// to the server in all; with some, any number.
func (b bubble) after(d time.Duration, want config.Injection, because string, requests int) {
	b.t.Helper()
	<-time.After(d)
	synctest.Wait()
	if got := b.Choice(); got.Injection != want || !strings.Contains(got.Reason, because) {
		b.t.Errorf("chosen is %+v; want %s because of %s", got, want, because)
	}
	if got := b.server.Requests("software"); got != requests && requests != some {
		b.t.Errorf("%d requests, want %d", got, requests)
	}
}

// Verifies that the server is asked only when somebody wants to know, then once, and
// from then on about once an hour: a runtime that was upgraded is seen.
func TestAskedRarely(t *testing.T) {
	inBubble(t, func(b bubble) {
		b.server.SetSoftware("v1.31.14", "containerd://1.6.36")
		<-time.After(24 * time.Hour)
		synctest.Wait()
		if got := b.server.Requests("software"); got != 0 {
			t.Errorf("%d requests, and nobody wants to know", got)
		}
		b.after(0, config.InjectCDIBoth, "not read yet", 0)
		b.after(10*time.Second, config.InjectPlain, "containerd 1.6.36", 1)
		b.server.SetSoftware("v1.31.14", "containerd://1.7.24")
		<-b.Changed() // of the first reading
		<-time.After(3 * time.Hour)
		synctest.Wait()
		if got := b.Choice(); got.Injection != config.InjectCDI {
			t.Errorf("chosen is %+v three hours after the runtime's upgrade", got)
		}
		if got := b.server.Requests("software"); got < 3 || got > 7 {
			t.Errorf("%d requests within three hours", got)
		}
	})
}

// Verifies that a kubelet that was started as another release is seen as soon as it
// says so, also if it is late, and that what is known stays until then.
func TestKubeletUpgraded(t *testing.T) {
	inBubble(t, func(b bubble) {
		b.server.SetSoftware("v1.28.15", "")
		b.Choice()
		b.after(10*time.Second, config.InjectCDIAnnotations, "v1.28.15", 1)
		b.KubeletCame()
		b.server.SetSoftware("v1.29.1", "")
		b.after(5*time.Second, config.InjectCDIAnnotations, "v1.28.15", 1)
		b.after(20*time.Second, config.InjectCDI, "v1.29.1", 2)
		b.KubeletCame()
		b.after(25*time.Second, config.InjectCDI, "v1.29.1", 3)
		b.after(70*time.Second, config.InjectCDI, "v1.29.1", 4) // once more
	})
}

// Verifies that a Node that cannot be read keeps nobody from CDI, that the reason
// says what is wrong, and that the choice comes with the Node.
func TestNodeCannotBeRead(t *testing.T) {
	inBubble(t, func(b bubble) {
		b.server.SetSoftware("v1.31.14", "")
		b.server.Forbid(true)
		b.Choice()
		b.after(5*time.Second, config.InjectCDIBoth, "needs the verb watch on nodes", some)
		b.server.Forbid(false)
		<-time.After(time.Minute)
		b.after(0, config.InjectCDI, "v1.31.14", some)
		// What was read stays while the server is away.
		b.server.Away(true)
		b.KubeletCame()
		<-time.After(time.Hour)
		b.after(0, config.InjectCDI, "v1.31.14", some)
	})
}

// Verifies what is said of a Node that does not exist, of one without software, and
// of no API server.
func TestNothingToRead(t *testing.T) {
	inBubble(t, func(b bubble) {
		b.Choice()
		<-time.After(20 * time.Second)
		b.after(0, config.InjectCDIBoth, "the Node does not say it", 1)
	})
	inBubble(t, func(b bubble) {
		b.server.DeleteNode()
		b.Choice()
		<-time.After(20 * time.Second)
		b.after(0, config.InjectCDIBoth, "no Node of this name", some)
	})
	var none *injection.Watcher
	none.KubeletCame()
	if got := none.Choice(); got.Injection != config.InjectCDIBoth || !strings.Contains(got.Reason, "no API server") {
		t.Errorf("without a server: %+v", got)
	}
}

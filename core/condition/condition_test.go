package condition_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/condition"
	"github.com/accelmux/accelmux/core/kubeapi/clustertest"
)

const nodeName = "node-1"

var (
	serving  = condition.Verdict{Ready: true, Reason: condition.Serving, Message: "ready"}
	notReady = condition.Verdict{Reason: condition.NotReady, Message: "backend red has not reported yet"}
)

// writing is a Writer that runs, and what it depends on.
type writing struct {
	*testing.T
	*condition.Writer
	server    *clustertest.Server
	verdict   atomic.Pointer[condition.Verdict]
	uid       atomic.Value
	successor atomic.Bool
	end       func()
}

// start runs a Writer with a verdict on a server, until end.
func start(t *testing.T, server *clustertest.Server, first condition.Verdict) *writing {
	w := &writing{T: t, server: server}
	w.verdict.Store(&first)
	w.uid.Store(types.UID("uid"))
	w.Writer = condition.New(condition.Options{
		Client: server.Client(t), Node: nodeName,
		UID:     func() types.UID { return w.uid.Load().(types.UID) },
		Verdict: func() condition.Verdict { return *w.verdict.Load() }, Successor: w.successor.Load,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Writer.Run(ctx) }()
	w.end = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return w
}

// after lets time pass, and returns the condition then.
func (w *writing) after(d time.Duration) corev1.NodeCondition {
	<-time.After(d)
	synctest.Wait()
	return w.server.Condition(condition.Type)
}

// want verifies the condition, and how often it has been written since the start of the server.
func (w *writing) want(when string, c corev1.NodeCondition, status corev1.ConditionStatus, reason string, writes int) {
	w.Helper()
	if c.Status != status || c.Reason != reason || (status != "" && c.Message == "") {
		w.Errorf("%s: %+v, want %s, %s", when, c, status, reason)
	}
	if n := w.server.Requests("patch status"); n != writes {
		w.Errorf("%s: written %d times, want %d", when, n, writes)
	}
}

// Verifies that the condition follows the verdict: ready at once, not ready once that has lasted; that a node at rest
// writes nothing; that a message that changes all the time is written once a minute; and what stays at the end.
func TestConditionFollowsTheVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, nodeName, map[string]string{})
		server.SetCondition(corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue})
		w := start(t, server, notReady)
		w.want("at first", w.after(10*time.Second), "", "", 0)
		w.verdict.Store(&serving)
		ready := w.after(2 * time.Second)
		w.want("ready", ready, corev1.ConditionTrue, condition.Serving, 1)
		w.want("a day later", w.after(24*time.Hour), corev1.ConditionTrue, condition.Serving, 1)

		w.verdict.Store(&notReady)
		w.want("not ready for a moment", w.after(12*time.Second), corev1.ConditionTrue, condition.Serving, 1)
		w.verdict.Store(&serving)
		w.want("ready again", w.after(time.Minute), corev1.ConditionTrue, condition.Serving, 1)
		w.verdict.Store(&notReady)
		broken := w.after(30 * time.Second)
		w.want("not ready", broken, corev1.ConditionFalse, condition.NotReady, 2)
		if broken.Message != notReady.Message || !broken.LastTransitionTime.After(ready.LastTransitionTime.Time) {
			t.Errorf("not ready: %+v, before %+v", broken, ready)
		}
		for i := range 60 {
			w.verdict.Store(&condition.Verdict{Reason: condition.NotReady, Message: strings.Repeat("x", i+1)})
			w.after(time.Second)
		}
		changed := w.after(time.Minute)
		w.want("another message", changed, corev1.ConditionFalse, condition.NotReady, 4)
		if !changed.LastTransitionTime.Equal(&broken.LastTransitionTime) {
			t.Errorf("a message is no transition: %+v, before %+v", changed, broken)
		}
		w.end()
		w.want("ended", w.after(0), corev1.ConditionUnknown, condition.AgentStopped, 5)
		if c := server.Condition(corev1.NodeReady); c.Status != corev1.ConditionTrue {
			t.Errorf("kubelet's condition is %+v", c)
		}
	})
}

// Verifies that an agent that takes over writes nothing if nothing changes, and the one before it nothing at its end;
// and that a Node that was made anew gets the condition again.
func TestConditionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, nodeName, map[string]string{})
		before := start(t, server, serving)
		before.after(time.Second)
		before.successor.Store(true)
		before.end()
		w := start(t, server, notReady)
		w.want("taken over", w.after(5*time.Second), corev1.ConditionTrue, condition.Serving, 1)
		w.verdict.Store(&serving)
		w.want("serving", w.after(time.Minute), corev1.ConditionTrue, condition.Serving, 1)

		server.DeleteNode()
		server.SetLabels(map[string]string{})
		w.uid.Store(types.UID("another"))
		w.want("the Node is new", w.after(time.Minute), corev1.ConditionTrue, condition.Serving, 2)
		w.successor.Store(true)
		w.end()
	})
}

// Verifies that an agent without the right tries seldom, says what it lacks, and writes once it has the right.
func TestConditionForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clustertest.NewInBubble(t, nodeName, map[string]string{})
		server.ForbidVerbs("patch status")
		w := start(t, server, serving)
		w.after(time.Hour)
		if n := server.Requests("patch status"); n < 3 || n > 20 {
			t.Errorf("tried %d times in an hour", n)
		}
		if notes := strings.Join(w.Notes(), "\n"); !strings.Contains(notes, "needs the verb patch on nodes/status") {
			t.Errorf("the notes are %q", notes)
		}
		server.ForbidVerbs()
		if c := w.after(10 * time.Minute); c.Status != corev1.ConditionTrue || len(w.Notes()) > 0 {
			t.Errorf("with the right: %+v, %q", c, w.Notes())
		}
		w.successor.Store(true)
		w.end()
	})
}

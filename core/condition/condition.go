// Package condition writes the condition AcceleratorsReady into the status of the agent's Node, for autoscalers and
// controllers that wait for a node's devices. It decides nothing: the caller's verdict is that of readiness.
//
//	True      as soon as the verdict is ready
//	False     once the verdict has not been ready for Settle: a kubelet or an agent that restarts is no news; at once if the
//	          agent does not start
//	Unknown   when the writer ends and no other agent takes over
//
// It writes changes only. Nothing marks the condition when the agent is killed: it stays as it was.
package condition

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/text"
)

// Type is the condition's type.
const Type corev1.NodeConditionType = "AcceleratorsReady"

// The condition's reasons: the first two are of True, the others of False and of Unknown.
const (
	Serving      = "Serving"
	NoProfile    = "NoProfile"
	NotReady     = "NotReady"
	AgentStopped = "AgentStopped"
)

// maxMessage bounds the message, in bytes.
const maxMessage = 1024

// Verdict is whether the agent serves what the profile promises, as Ready and one of the first three reasons.
type Verdict struct {
	Ready           bool
	Reason, Message string
}

// Client is the API calls of a Writer; *kubeapi.Client is one.
type Client interface {
	// NodeCondition returns a condition of a Node; nil if it has none of that type.
	NodeCondition(ctx context.Context, node string, kind corev1.NodeConditionType) (*corev1.NodeCondition, error)
	// SetNodeCondition adds or replaces it, and leaves the others alone.
	SetNodeCondition(ctx context.Context, node string, condition corev1.NodeCondition) error
}

// Options are the settings of a Writer. Client, Node, Verdict, UID and Successor are required.
type Options struct {
	Client Client
	// Node is the Node's name, and UID returns its UID as far as it is known: a Node with another one is new, and has no
	// condition.
	Node string
	UID  func() types.UID
	// Verdict returns the newest verdict.
	Verdict func() Verdict
	// Successor reports whether another agent takes over when this one ends.
	Successor func() bool
	// Log is where the writer logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the writer's intervals. The zero value is right for a node.
type Timing struct {
	// Spread bounds a random delay of the first write. Default 1s.
	Spread time.Duration
	// Poll is how often the verdict is read while it is ready; otherwise ten times as often. Default 10s.
	Poll time.Duration
	// Settle is how long a verdict must have been not ready. Default 15s.
	Settle time.Duration
	// Quiet is the least time between writes of the same status with another message. Default 1m.
	Quiet time.Duration
	// Backoff is the pause after the first failed write; it doubles up to BackoffLimit. Defaults 5s and 5m.
	Backoff, BackoffLimit time.Duration
	// Deadline bounds one write, and Stop the one at the end. Defaults 10s and 1s.
	Deadline, Stop time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Spread = cmp.Or(t.Spread, time.Second)
	t.Poll = cmp.Or(t.Poll, 10*time.Second)
	t.Settle = cmp.Or(t.Settle, 15*time.Second)
	t.Quiet = cmp.Or(t.Quiet, time.Minute)
	t.Backoff = cmp.Or(t.Backoff, 5*time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, 5*time.Minute)
	t.Deadline = cmp.Or(t.Deadline, 10*time.Second)
	t.Stop = cmp.Or(t.Stop, time.Second)
	return t
}

// Writer writes the condition while Run runs.
type Writer struct {
	opts Options
	log  *slog.Logger

	// written is the condition that the Node has, of the Node with this UID; nil if that is not known.
	written *corev1.NodeCondition
	uid     types.UID
	// notReadySince is when the verdict was first not ready, without being ready since; zero if it is.
	notReadySince time.Time
	failures      int

	mu sync.Mutex
	// problem is why the condition is not written; "" if it is.
	problem string
}

// New returns a Writer.
func New(opts Options) *Writer {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Writer{opts: opts, log: opts.Log}
}

// Notes returns a problem if the condition cannot be written; none for a nil Writer.
func (w *Writer) Notes() []string {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem == "" {
		return nil
	}
	return []string{w.problem}
}

// Run writes the condition until ctx ends, and then that its agent has ended.
func (w *Writer) Run(ctx context.Context) error {
	pause := rand.N(w.opts.Timing.Spread)
	for backoff.Sleep(ctx, pause) {
		pause = w.update(ctx)
	}
	if w.opts.Successor() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.opts.Timing.Stop)
	defer cancel()
	w.writeLast(ctx, corev1.NodeCondition{Type: Type, Status: corev1.ConditionUnknown, Reason: AgentStopped, Message: "the agent of accelmux on this node has ended"})
	return nil
}

// Report writes once that the agent does not start, and why. Options.Client and Node are required.
func Report(opts Options, why error) {
	w := New(opts)
	ctx, cancel := context.WithTimeout(context.Background(), w.opts.Timing.Deadline)
	defer cancel()
	w.writeLast(ctx, corev1.NodeCondition{
		Type: Type, Status: corev1.ConditionFalse, Reason: NotReady, Message: text.Shorten(fmt.Sprintf("the agent does not start: %v", why), maxMessage),
	})
}

// writeLast writes the condition that stays behind this process.
func (w *Writer) writeLast(ctx context.Context, wanted corev1.NodeCondition) {
	if err := w.write(ctx, wanted); err != nil {
		w.log.Warn("the Node's condition stays as it is", "condition", Type, "error", err)
	}
}

// update writes the condition if it is another one, and returns after how long to update it again.
func (w *Writer) update(ctx context.Context) time.Duration {
	t, now := w.opts.Timing, time.Now()
	verdict := w.opts.Verdict()
	pause := t.Poll
	wanted := corev1.NodeCondition{Type: Type, Status: corev1.ConditionTrue, Reason: verdict.Reason, Message: text.Shorten(verdict.Message, maxMessage)}
	if verdict.Ready {
		w.notReadySince = time.Time{}
	} else {
		pause /= 10
		wanted.Status = corev1.ConditionFalse
		if w.notReadySince.IsZero() {
			w.notReadySince = now
		}
		if now.Sub(w.notReadySince) < t.Settle {
			return pause
		}
	}
	uid := w.opts.UID()
	if w.uid != uid {
		w.uid, w.written = uid, nil
	}
	if has := w.written; has != nil && has.Status == wanted.Status {
		isSame := has.Reason == wanted.Reason && has.Message == wanted.Message
		if isSame || now.Sub(has.LastHeartbeatTime.Time) < t.Quiet {
			return pause
		}
	}
	limited, cancel := context.WithTimeout(ctx, t.Deadline)
	defer cancel()
	err := w.write(limited, wanted)
	if ctx.Err() != nil {
		return 0
	}
	w.note(err)
	if err != nil {
		w.failures++
		return backoff.After(w.failures, t.Backoff, t.BackoffLimit)
	}
	w.failures = 0
	return pause
}

// write writes the condition unless the Node has it already.
func (w *Writer) write(ctx context.Context, wanted corev1.NodeCondition) error {
	has, err := w.opts.Client.NodeCondition(ctx, w.opts.Node, Type)
	if err != nil {
		return explained(err, "get", "nodes")
	}
	now := metav1.Now()
	wanted.LastHeartbeatTime, wanted.LastTransitionTime = now, now
	if has != nil && has.Status == wanted.Status {
		wanted.LastTransitionTime = has.LastTransitionTime
		if has.Reason == wanted.Reason && has.Message == wanted.Message {
			w.written = has
			return nil
		}
	}
	if err := w.opts.Client.SetNodeCondition(ctx, w.opts.Node, wanted); err != nil {
		return explained(err, "patch", "nodes/status")
	}
	w.written = &wanted
	w.log.Info("condition of the Node written", "condition", Type, "status", wanted.Status, "reason", wanted.Reason)
	return nil
}

func explained(err error, verb, resource string) error {
	if text, ok := kubeapi.Forbidden(err, verb, resource, ""); ok {
		return errors.New(text)
	}
	return err
}

// note records whether the condition is written, and logs when that changes.
func (w *Writer) note(err error) {
	problem := ""
	if err != nil {
		problem = fmt.Sprintf("the condition %s of Node %s cannot be written: %v", Type, w.opts.Node, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.problem == "" && problem != "" {
		w.log.Warn("cannot write the condition of the Node, trying again", "error", err)
	}
	w.problem = problem
}

package events

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/accelmux/accelmux/core/backoff"
)

// Reason is what an Event is about, in the form that Kubernetes gives to reasons.
type Reason string

// The reasons. ProfileApplied, KubeletFound and DeviceRecovered are Normal, the
// others Warnings.
const (
	ProfileApplied       Reason = "ProfileApplied"
	ProfileRefused       Reason = "ProfileRefused"
	ProfileSwitchBlocked Reason = "ProfileSwitchBlocked"
	ConfigurationRefused Reason = "ConfigurationRefused"
	KubeletMissing       Reason = "KubeletMissing"
	KubeletFound         Reason = "KubeletFound"
	ResourceContested    Reason = "ResourceContested"
	BackendFailed        Reason = "BackendFailed"
	BackendQuarantined   Reason = "BackendQuarantined"
	DeviceUnhealthy      Reason = "DeviceUnhealthy"
	DeviceRecovered      Reason = "DeviceRecovered"
)

// kind is what Kubernetes calls the type of an Event.
func (r Reason) kind() string {
	switch r {
	case ProfileApplied, KubeletFound, DeviceRecovered:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

const (
	// maxMessage is the longest message, in bytes; events.k8s.io has the same limit
	// (NoteLengthLimit).
	maxMessage = 1024
	// component is the reporting controller.
	component = "accelmux"
	// burst is how many Events of one reason may come at once, and perSecond how many
	// come after that. The recorder combines different ones of a reason from the tenth
	// within 10 minutes on.
	burst     = 25
	perSecond = 1.0 / 60
)

// Options are the settings of a Recorder. Client and Node are required.
type Options struct {
	// Client writes Events; *kubeapi.Client is one.
	Client Client
	// Node is the name of the Node that the Events are about.
	Node string
	// Log is where the recorder logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Client is what the recorder needs of the API server. core/kubeapi implements it.
type Client interface {
	CreateEvent(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	PatchEvent(ctx context.Context, namespace, name string, patch []byte) (*corev1.Event, error)
}

// Timing are the recorder's intervals. The zero value is right for a node.
type Timing struct {
	// Spread is how long the first Event may wait, so that the agents of a cluster
	// do not write theirs all at once. It is random up to that. Default 10s.
	Spread time.Duration
	// Backoff is the pause after the first failed write; it doubles up to
	// BackoffLimit. Defaults 1s and 5m.
	Backoff, BackoffLimit time.Duration
	// Deadline bounds one request. Default 10s.
	Deadline time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Spread = cmp.Or(t.Spread, 10*time.Second)
	t.Backoff = cmp.Or(t.Backoff, time.Second)
	t.BackoffLimit = cmp.Or(t.BackoffLimit, 5*time.Minute)
	t.Deadline = cmp.Or(t.Deadline, 10*time.Second)
	return t
}

// Recorder takes Events and writes them. Its methods are safe for concurrent use,
// also those of a nil Recorder, which drops everything.
type Recorder struct {
	opts     Options
	log      *slog.Logger
	recorder record.EventRecorder
	node     *corev1.ObjectReference
	// ready is closed when Events may be written.
	ready chan struct{}
	end   context.CancelFunc

	mu sync.Mutex
	// problem is why Events are not written; "" if they are.
	problem string
}

// New makes a Recorder that keeps Events until Run writes them. Close ends it.
func New(opts Options) *Recorder {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	r := &Recorder{
		opts: opts, log: opts.Log, ready: make(chan struct{}), end: end,
		// kubelet names the Node so in its own Events, which `kubectl describe node` finds.
		node: &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: opts.Node, UID: types.UID(opts.Node)},
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx), record.WithCorrelatorOptions(record.CorrelatorOptions{
		BurstSize: burst, QPS: perSecond,
		SpamKeyFunc: func(event *corev1.Event) string { return event.Reason },
	}))
	broadcaster.StartRecordingToSink(&sink{recorder: r, ctx: ctx})
	r.recorder = broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: component, Host: opts.Node})
	return r
}

// Close drops the Events that are not written.
func (r *Recorder) Close() {
	if r != nil {
		r.end()
	}
}

// Run writes Events until ctx ends, and closes the Recorder. It must be called once.
func (r *Recorder) Run(ctx context.Context) error {
	defer r.Close()
	if backoff.Sleep(ctx, rand.N(r.opts.Timing.Spread)) {
		close(r.ready)
		<-ctx.Done()
	}
	return nil
}

// Record takes an Event. It does not wait; what is recorded after Close, or faster
// than the limit of the reason, is dropped.
func (r *Recorder) Record(reason Reason, format string, args ...any) {
	if r != nil {
		r.recorder.Event(r.node, reason.kind(), string(reason), shorten(fmt.Sprintf(format, args...)))
	}
}

// Notes returns the problem if Events are not written.
func (r *Recorder) Notes() []string {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.problem == "" {
		return nil
	}
	return []string{r.problem}
}

// shorten cuts a message to maxMessage.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const more = " ..."
	return strings.ToValidUTF8(message[:maxMessage-len(more)], "") + more
}

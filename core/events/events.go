package events

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/text"
)

// Reason is the reason of an Event, in UpperCamelCase as in Kubernetes.
type Reason string

// The reasons. ProfileApplied, KubeletFound, BackendResumed and DeviceRecovered are Normal, the
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
	BackendPaused        Reason = "BackendPaused"
	BackendResumed       Reason = "BackendResumed"
	DeviceUnhealthy      Reason = "DeviceUnhealthy"
	DeviceRecovered      Reason = "DeviceRecovered"
)

// kind returns the type of an Event with this reason: Normal or Warning.
func (r Reason) kind() string {
	switch r {
	case ProfileApplied, KubeletFound, BackendResumed, DeviceRecovered:
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

const (
	// maxMessage bounds a message, in bytes, as events.k8s.io does (NoteLengthLimit).
	maxMessage = 1024
	// component is the reporting controller.
	component = "accelmux"
	// burst and perSecond limit the Events of one reason. The recorder aggregates different
	// messages of one reason from the tenth within 10 minutes.
	burst     = 25
	perSecond = 1.0 / 60
)

// Options are the settings of a Recorder. Client and Node are required.
type Options struct {
	// Client writes Events; *kubeapi.Client is one.
	Client Client
	// Node is the name of the Node, the involved object of the Events.
	Node string
	// Log is where the recorder logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Client is the API calls that the recorder needs. core/kubeapi implements it.
type Client interface {
	CreateEvent(ctx context.Context, event *corev1.Event) (*corev1.Event, error)
	PatchEvent(ctx context.Context, namespace, name string, patch []byte) (*corev1.Event, error)
}

// Timing are the recorder's intervals. The zero value is right for a node.
type Timing struct {
	// Spread bounds a random delay of the first Event, so that the agents of a cluster do not
	// all write at once. Default 10s.
	Spread time.Duration
	// Backoff is the delay after the first failed write; it doubles up to BackoffLimit.
	// Defaults 1s and 5m.
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

// Recorder records Events and writes them to the API server. Its methods are safe for
// concurrent use. A nil Recorder discards all Events.
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

// New returns a Recorder that stores Events until Run writes them. Call Run or Close.
func New(opts Options) *Recorder {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	r := &Recorder{
		opts: opts, log: opts.Log, ready: make(chan struct{}), end: end,
		// As in kubelet's own Events: `kubectl describe node` selects by this UID.
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

// Close discards the Events that are not written yet.
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

// Record records an Event. It does not block. Events after Close, or above the rate limit of
// the reason, are discarded.
func (r *Recorder) Record(reason Reason, format string, args ...any) {
	if r != nil {
		r.recorder.Event(r.node, reason.kind(), string(reason), text.Shorten(fmt.Sprintf(format, args...), maxMessage))
	}
}

// Notes returns a problem if Events cannot be written.
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

package events

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// queueSize bounds the Events that wait to be written.
	queueSize = 64
	// maxMessage is the longest message that the API server takes (in events.k8s.io
	// as NoteLengthLimit), in bytes.
	maxMessage = 1024
	// namespace is where Events about objects without one are.
	namespace = metav1.NamespaceDefault
	// component is who reports.
	component = "accelmux"
)

// Sink writes Events. core/kubeapi implements it and documents it.
type Sink interface {
	CreateEvent(ctx context.Context, event *corev1.Event) error
	PatchEvent(ctx context.Context, namespace, name string, patch []byte) error
}

// Options are the settings of a Recorder. Sink and Node are required.
type Options struct {
	Sink Sink
	// Node is the name of the Node that the Events are about.
	Node string
	// Log is where the recorder logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the recorder's intervals and limits. The zero value is right for a
// node.
type Timing struct {
	// Spread is how long the first Event may wait, so that the agents of a cluster
	// do not write theirs all at once. It is random up to that. Default 10s.
	Spread time.Duration
	// Burst is how many Events of one reason may come at once, and Refill how long
	// it takes until another one may. Defaults 10 and 1m.
	Burst  int
	Refill time.Duration
	// Backoff is the pause after the first failed write; it doubles, and half of it
	// is random. After five tries an Event is dropped. Default 1s.
	Backoff time.Duration
	// Again is the pause before the newest Event that could not be written is tried
	// again; it doubles up to AgainLimit, and half of it is random. Defaults 1m and
	// 10m.
	Again, AgainLimit time.Duration
	// Deadline bounds one request. Default 10s.
	Deadline time.Duration
	// Memory is how long the same Event is counted up instead of written anew: the
	// API server forgets Events after an hour. Default 30m.
	Memory time.Duration
}

func (t Timing) withDefaults() Timing {
	t.Spread = cmp.Or(t.Spread, 10*time.Second)
	t.Burst = cmp.Or(t.Burst, 10)
	t.Refill = cmp.Or(t.Refill, time.Minute)
	t.Backoff = cmp.Or(t.Backoff, time.Second)
	t.Again = cmp.Or(t.Again, time.Minute)
	t.AgainLimit = cmp.Or(t.AgainLimit, 10*time.Minute)
	t.Deadline = cmp.Or(t.Deadline, 10*time.Second)
	t.Memory = cmp.Or(t.Memory, 30*time.Minute)
	return t
}

// Recorder takes Events and writes them. Its methods are safe for concurrent use,
// also those of a nil Recorder, which drops everything.
type Recorder struct {
	opts  Options
	log   *slog.Logger
	queue chan record

	mu      sync.Mutex
	budgets map[Reason]*budget
	// dropped counts the Events that found no place since the last one did.
	dropped int
	// problem is why Events are dropped; "" if they are not.
	problem string

	// written are the Events of the last Memory, of Run's goroutine.
	written map[record]*corev1.Event
	// serial makes names unique, also within a nanosecond.
	serial int64
	// outage: the last Event could not be written, though nothing is wrong with it. lost
	// counts those that are given up since. Both are of Run's goroutine.
	outage bool
	lost   int
}

// record is an Event to be written; equal ones are the same Event again.
type record struct {
	reason  Reason
	message string
}

// budget limits the rate of one reason.
type budget struct {
	left   int
	filled time.Time
	silent bool
}

// New makes a Recorder; Run writes what it takes.
func New(opts Options) *Recorder {
	opts.Timing = opts.Timing.withDefaults()
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Recorder{
		opts: opts, log: opts.Log, queue: make(chan record, queueSize),
		budgets: map[Reason]*budget{}, written: map[record]*corev1.Event{},
	}
}

// Record takes an Event; the message is a sentence for the operator. It never
// waits, and drops the Event if there are too many.
func (r *Recorder) Record(reason Reason, format string, args ...any) {
	if r == nil {
		return
	}
	message := shorten(fmt.Sprintf(format, args...))
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.affordable(reason) {
		return
	}
	select {
	case r.queue <- record{reason, message}:
		if r.dropped > 0 {
			r.log.Warn("Events were dropped: too many waited to be written", "count", r.dropped)
			r.dropped = 0
		}
	default:
		if r.dropped++; r.dropped == 1 {
			r.log.Warn("Event dropped: too many wait to be written", "reason", string(reason), "message", message)
		}
	}
}

// affordable takes one Event off the budget of its reason, if there is one left.
func (r *Recorder) affordable(reason Reason) bool {
	b, now := r.budgets[reason], time.Now()
	if b == nil {
		b = &budget{left: r.opts.Timing.Burst, filled: now}
		r.budgets[reason] = b
	}
	if more := now.Sub(b.filled) / r.opts.Timing.Refill; more > 0 {
		b.left = int(min(int64(b.left)+int64(more), int64(r.opts.Timing.Burst)))
		b.filled = b.filled.Add(more * r.opts.Timing.Refill)
	}
	if b.left == 0 {
		if !b.silent {
			b.silent = true
			r.log.Warn("Events of one reason come too fast, the next ones are only in this log", "reason", string(reason))
		}
		return false
	}
	b.left--
	b.silent = false
	return true
}

// Notes are sentences about what is wrong.
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

// event is the Event as the API server takes it. Its object is named as kubelet
// names the Node in its own Events, with the name for the UID, so that
// `kubectl describe node` finds it.
func (r *Recorder) event(rec record, now time.Time) *corev1.Event {
	r.serial++
	prefix := strings.TrimRight(r.opts.Node[:min(len(r.opts.Node), 200)], ".-")
	at := metav1.NewTime(now)
	return &corev1.Event{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s.%x.%x", prefix, now.UnixNano(), r.serial), Namespace: namespace,
		},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: r.opts.Node, UID: types.UID(r.opts.Node)},
		Reason:         string(rec.reason), Message: rec.message, Type: rec.reason.kind(),
		Source:         corev1.EventSource{Component: component, Host: r.opts.Node},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: component, ReportingInstance: r.opts.Node,
	}
}

// shorten cuts a message to what the API server takes.
func shorten(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	const more = " ..."
	cut := maxMessage - len(more)
	for cut > 0 && !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + more
}

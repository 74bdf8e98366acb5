package profile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/accelmux/accelmux/core/kubeapi"
)

var (
	// errBrief says that a watch ended at once, which no server means to do.
	errBrief = errors.New("the API server, or something in between, ended the connection at once")
	// errLost says that a watch ended before its time: the server stops perhaps,
	// and all agents have lost theirs.
	errLost = errors.New("the API server, or something in between, ended the watch")
)

// Run watches until ctx ends:
//
//	   ┌──────── pause, longer each time ◄── failed
//	   ▼                                       ▲
//	watch, from the beginning ─────────────────┤
//	or from the version last seen              │
//	   ▲                                       ▼
//	   ├──────── random pause ◄──────────── lost
//	   └──────── at once ◄───────────────── ended in time; or expired:
//	                                        next from the beginning
//
// A watch from the beginning delivers the Node as it is first, so that nothing has
// to be read or listed. (To read the Node and to watch from its version would not
// do: an old version of an object that rarely changes is one that the server no
// longer watches from.)
func (w *Watcher) Run(ctx context.Context) error {
	var keeper sync.WaitGroup
	keeper.Go(func() { w.keep(ctx) })
	defer keeper.Wait()
	first := w.opts.Timing.Start
	if w.Labels() != nil {
		first = w.opts.Timing.Spread
	}
	pause(ctx, rand.N(first))
	retry := newBackoff(w.opts.Timing)
	var at position
	for ctx.Err() == nil {
		started := time.Now()
		err := w.follow(ctx, &at)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			retry.reset()
			continue
		case errors.Is(err, errLost):
			retry.reset()
			pause(ctx, rand.N(w.opts.Timing.Spread))
			continue
		case at.version != "" && expired(err):
			// The server is there, and only from a version can it expire again.
			at.version = ""
			continue
		case time.Since(started) > w.opts.Timing.BackoffLimit:
			retry.reset() // it went well for long
		}
		w.trouble(w.diagnose(err))
		wait := retry.next()
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			wait += min(time.Duration(seconds)*time.Second, w.opts.Timing.BackoffLimit)
		}
		pause(ctx, wait)
	}
	return nil
}

// position is how far the watch got.
type position struct {
	// version is what to watch from; "" for the beginning.
	version string
	// absent says that there is no such Node as far as is known.
	absent bool
}

// rounding is what a watch may end before its time, which the server counts in
// whole seconds and from a moment before the answer arrives.
const rounding = time.Second

// follow takes in what a watch delivers until it ends; nil if that was in its
// time.
func (w *Watcher) follow(ctx context.Context, at *position) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lifetime := w.opts.Timing.Lifetime + rand.N(w.opts.Timing.Lifetime)
	// A server that does not answer, and one that does not end the watch when it
	// should, are gone.
	limit := time.AfterFunc(w.opts.Timing.Deadline, cancel)
	defer limit.Stop()
	events, err := w.opts.Nodes.WatchNode(ctx, w.opts.Node, at.version, lifetime)
	if err != nil {
		return err
	}
	defer events.Stop()
	began := time.Now()
	limit.Reset(lifetime + w.opts.Timing.Deadline)
	// A server that answers and hangs up at once has not come back: after a failure a
	// watch has to last, or to deliver something, before it counts as one.
	var lasting <-chan time.Time
	if w.failing() {
		lasting = time.After(w.opts.Timing.Backoff)
	} else {
		w.report(at)
	}
	var silence <-chan time.Time
	if at.version == "" {
		silence = time.After(w.opts.Timing.Silence)
	}
	for {
		select {
		case <-lasting:
			lasting = nil
			w.report(at)
		case <-silence:
			at.absent = true
			w.report(at)
		case event, ok := <-events.ResultChan():
			switch {
			case !ok && time.Since(began) < w.opts.Timing.Backoff:
				return errBrief
			case !ok && time.Since(began) < lifetime-rounding:
				return errLost
			case !ok:
				return nil
			}
			switch err := w.event(event, at); {
			case err != nil && !expired(err) && time.Since(began) >= w.opts.Timing.Backoff:
				return fmt.Errorf("%w: %w", errLost, err)
			case err != nil:
				return err
			}
			if event.Type != watch.Bookmark {
				silence, lasting = nil, nil
			}
		}
	}
}

// report says how it is while the watch runs.
func (w *Watcher) report(at *position) {
	if at.absent {
		w.trouble(w.diagnose(apierrors.NewNotFound(nodes, w.opts.Node)))
	} else {
		w.trouble(trouble{})
	}
}

// nodes is what the server calls them.
var nodes = schema.GroupResource{Resource: "nodes"}

// event takes in one event of the watch.
func (w *Watcher) event(event watch.Event, at *position) error {
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	node, ok := event.Object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("the watch delivered an object of the type %T", event.Object)
	}
	at.version = node.ResourceVersion
	if event.Type != watch.Bookmark {
		at.absent = event.Type == watch.Deleted
		w.report(at)
	}
	if event.Type == watch.Added || event.Type == watch.Modified {
		w.take(node.Labels)
	}
	return nil
}

// expired reports whether the watch has to begin anew because the server no longer
// has what followed the version.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// trouble is why the labels may be out of date; the zero value is none.
type trouble struct {
	// kind is the same for errors of the same kind, whose text may differ, so that
	// each kind is logged once.
	kind string
	// text is a sentence for the operator.
	text string
}

// absent is the kind of trouble with a Node that does not exist.
const absent = "absent"

// diagnose says what an error means for the operator.
func (w *Watcher) diagnose(err error) trouble {
	at := "the labels of Node " + w.opts.Node + " can't be watched: "
	forbidden, isForbidden := kubeapi.Forbidden(err, "watch", "nodes", "")
	switch {
	case apierrors.IsNotFound(err):
		return trouble{absent, "the cluster has no Node " + w.opts.Node + ": it was deleted, or the name (--node-name) is another"}
	case isForbidden:
		return trouble{"forbidden", at + forbidden}
	case apierrors.IsUnauthorized(err):
		return trouble{"unauthorized", at + "the API server does not accept this agent's credentials"}
	case apierrors.IsTooManyRequests(err):
		return trouble{"busy", at + "the API server has too much to do"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return trouble{"away", at + "the API server does not answer"}
	}
	return trouble{"away", at + "the API server cannot be reached: " + err.Error()}
}

// backoff are the pauses between tries: doubling, half of each random.
type backoff struct {
	least, most, now time.Duration
}

func newBackoff(t Timing) *backoff {
	return &backoff{least: t.Backoff, most: t.BackoffLimit, now: t.Backoff}
}

func (b *backoff) next() time.Duration {
	d := b.now
	b.now = min(2*b.now, b.most)
	return d/2 + rand.N(d/2+1)
}

func (b *backoff) reset() { b.now = b.least }

// pause waits, but not longer than ctx.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

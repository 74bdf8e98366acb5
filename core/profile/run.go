package profile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/cordon"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/wake"
)

// Run watches the Node until ctx ends, by a [cache.Reflector]. That begins the watch again
// when it ends, from the last version if possible. If the Reflector returns, it is started
// again after a backoff.
func (w *Watcher) Run(ctx context.Context) error {
	t := w.opts.Timing
	first := t.Start
	if w.Labels() != nil {
		first = t.Spread
	}
	if !backoff.Sleep(ctx, rand.N(first)) {
		return nil
	}
	reflector := cache.NewReflectorWithOptions(w.requests(), &metav1.PartialObjectMetadata{}, store{w}, cache.ReflectorOptions{
		Name: "node", Backoff: new(backoff.New(t.Backoff, t.BackoffLimit)),
	})
	// The watcher logs each new problem; the Reflector would log each attempt.
	quiet := klog.NewContext(ctx, klog.Logger{})
	failures := 0
	for {
		began := time.Now()
		if err := reflector.ListAndWatchWithContext(quiet); err == nil || time.Since(began) > t.BackoffLimit {
			failures = 0
		}
		failures++
		if !backoff.Sleep(ctx, backoff.After(failures, t.Backoff, t.BackoffLimit)) {
			return nil
		}
	}
}

// requests makes the Reflector's requests. The watcher takes problems from their results.
func (w *Watcher) requests() *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := w.opts.Nodes.ListWithContext(ctx, options)
			if err != nil && ctx.Err() == nil {
				w.update(func() { w.failure = w.diagnose(err) })
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := w.opts.Nodes.WatchWithContext(ctx, options)
			switch {
			case ctx.Err() != nil:
			case err == nil:
				w.update(func() { w.failure, w.answered = trouble{}, true })
			case options.SendInitialEvents != nil && apierrors.IsInvalid(err):
				// A server that cannot begin a watch with the present state (before 1.34,
				// https://kep.k8s.io/3157): the Reflector lists instead.
			default:
				w.update(func() { w.failure = w.diagnose(err) })
			}
			return events, err
		},
	}
}

// store is the Reflector's store of the one Node.
type store struct{ *Watcher }

// Add implements cache.ReflectorStore.
func (s store) Add(object any) error {
	node, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("the API server sent an object of type %T instead of a Node's metadata", object)
	}
	seen := make(map[string]string, len(node.Labels))
	maps.Copy(seen, node.Labels)
	for key, value := range node.Annotations {
		if len(value) <= validation.LabelValueMaxLength { // no selector matches a longer one
			seen[config.AnnotationPrefix+key] = value
		}
	}
	s.update(func() {
		s.absent, s.uid = false, node.UID
		if s.seen != nil && maps.Equal(s.seen, seen) {
			return
		}
		s.seen = seen
		s.opts.Memory.setLabels(seen)
		wake.Send(s.changed)
		s.opts.Labels(seen)
	})
	s.setCordoned(node.Annotations[cordon.Annotation])
	return nil
}

// setCordoned takes a new value of the annotation; the last valid one stays in force.
func (w *Watcher) setCordoned(value string) {
	invalid := ""
	if _, err := cordon.Parse(value); err != nil {
		invalid = fmt.Sprintf("Node %s: %v; the devices that were cordoned before stay so: correct the annotation", w.opts.Node, err)
	}
	w.mu.Lock()
	changed := invalid != w.invalid || invalid == "" && value != w.cordoned
	w.invalid = invalid
	if invalid == "" && value != w.cordoned {
		w.cordoned = value
		w.opts.Memory.setCordoned(value)
	}
	w.mu.Unlock()
	if changed {
		w.opts.Cordoned()
	}
}

// Update implements cache.ReflectorStore.
func (s store) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s store) Delete(any) error {
	s.update(func() { s.absent = true })
	return nil
}

// Replace implements cache.ReflectorStore.
func (s store) Replace(objects []any, _ string) error {
	if len(objects) == 0 {
		return s.Delete(nil)
	}
	return s.Add(objects[0])
}

// Resync implements cache.ReflectorStore.
func (s store) Resync() error { return nil }

// update changes what is known, and logs a problem when its kind changes.
func (w *Watcher) update(change func()) {
	w.mu.Lock()
	before := w.problem()
	change()
	now := w.problem()
	w.mu.Unlock()
	switch now.kind {
	case before.kind:
	case "":
		w.log.Info("the Node is watched again", "node", w.opts.Node)
	default:
		w.log.Warn("the Node cannot be watched", "node", w.opts.Node, "error", now.text)
	}
}

// trouble is why the labels may be out of date; the zero value is none.
type trouble struct {
	// kind is the same for errors of the same kind, whose text may differ, so that
	// each kind is logged once.
	kind string
	// text is the problem for the operator.
	text string
}

// problem returns what is wrong with the watch. The caller holds the lock.
func (w *Watcher) problem() trouble {
	now := w.failure
	if now.kind == "" && w.absent {
		now = trouble{"absent", "the cluster has no Node " + w.opts.Node + ": it was deleted, or the name (--node-name) is another"}
	}
	if now.kind != "" && w.seen != nil {
		now.text += "; its labels and cordoned devices count as last seen"
	}
	return now
}

// diagnose returns what an error means for the operator.
func (w *Watcher) diagnose(err error) trouble {
	at := "Node " + w.opts.Node + " can't be watched: "
	forbidden, isForbidden := kubeapi.Forbidden(err, "watch", "nodes", "")
	switch {
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

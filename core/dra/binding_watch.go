package dra

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/accelmux/accelmux/core/wake"
)

// watch begins to watch claims, or ends that. Claims have no field by which the API server could select those
// of a node, so a watch has all of the cluster: only nodes with a device that is slow to prepare have one.
func (b *binder) watch(ctx context.Context, wanted bool) {
	switch {
	case wanted && b.cancel == nil:
		b.start(ctx)
	case !wanted:
		b.stop()
	}
}

func (b *binder) start(ctx context.Context) {
	ctx, b.cancel = context.WithCancel(ctx)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, retryLimit))
	b.mu.Lock()
	b.queue = queue
	b.mu.Unlock()
	reflector := cache.NewReflectorWithOptions(b.requests(), &resourceapi.ResourceClaim{}, claims{b}, cache.ReflectorOptions{
		Name: "claims", Backoff: &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 6, Cap: 30 * time.Second},
	})
	b.done.Go(func() { reflector.RunWithContext(klog.NewContext(ctx, logr.FromSlogHandler(slog.DiscardHandler))) })
	b.done.Go(func() { b.serve(ctx, queue) })
}

// stop ends the watch. Claims that are being prepared are prepared again when it begins again.
func (b *binder) stop() {
	if b.cancel == nil {
		return
	}
	b.cancel()
	b.queue.ShutDown()
	b.done.Wait()
	b.cancel = nil
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trouble, b.synced, b.refusal = nil, false, nil
	clear(b.unwritten)
	clear(b.claims)
}

// isAllowed reports whether claims can be watched and their conditions written, as far as that is known. Otherwise no
// pod may wait for devices. A permission that was refused is tried again after an hour: the pods that wait then are
// bound 10 min later.
func (b *binder) isAllowed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.synced && !apierrors.IsForbidden(b.trouble) && (b.refusal == nil || time.Since(b.refused) > featuresInterval)
}

// requests are the Reflector's, and record why one fails.
func (b *binder) requests() cache.ListerWatcher {
	all := b.frontend.opts.Client.ResourceV1().ResourceClaims(metav1.NamespaceAll)
	note := func(ctx context.Context, err error) {
		if ctx.Err() == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.trouble, b.synced = err, b.synced || err == nil
			wake.Send(b.frontend.wake) // isAllowed may have changed
		}
	}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := all.List(ctx, options)
			note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := all.Watch(ctx, options)
			if options.SendInitialEvents == nil || !apierrors.IsInvalid(err) { // a server before 1.34: the Reflector lists instead
				note(ctx, err)
			}
			return events, err
		},
	}, b.frontend.opts.Client)
}

// claims is the Reflector's store. It keeps only claims with devices of this node for which pods wait.
type claims struct{ *binder }

// Add implements cache.ReflectorStore.
func (s claims) Add(object any) error {
	c, ok := object.(*resourceapi.ResourceClaim)
	if !ok {
		return fmt.Errorf("the API server sent an object of type %T instead of a claim", object)
	}
	s.set(nameOf(c), c)
	return nil
}

func nameOf(c *resourceapi.ResourceClaim) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
}

// Update implements cache.ReflectorStore.
func (s claims) Update(object any) error { return s.Add(object) }

// Delete implements cache.ReflectorStore.
func (s claims) Delete(object any) error {
	if c, ok := object.(*resourceapi.ResourceClaim); ok {
		s.set(nameOf(c), nil)
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s claims) Replace(objects []any, _ string) error {
	gone := map[types.NamespacedName]bool{}
	s.mu.Lock()
	for name := range s.claims {
		gone[name] = true
	}
	s.mu.Unlock()
	for _, object := range objects {
		if err := s.Add(object); err != nil {
			return err
		}
		if c, ok := object.(*resourceapi.ResourceClaim); ok {
			delete(gone, nameOf(c))
		}
	}
	for name := range gone {
		s.set(name, nil)
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s claims) Resync() error { return nil }

package dra

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/lifecycle"
	"github.com/accelmux/accelmux/core/wake"
)

// retryLimit bounds the pause until a claim is tried again.
const retryLimit = 30 * time.Second

// binder prepares claims with devices that are slow to prepare, before their pods are bound to the node
// (binding conditions, KEP-5007):
//
//	the scheduler allocates the claim, and reserves it for the pod ──► it is prepared, as kubelet would call for it
//	  prepared ──► the condition Prepared of its devices ──► the scheduler binds the pod, and kubelet finds it prepared
//	  a device is not free yet, or its backend does not run ──► again, until 9 min after the allocation
//	  failed ──► the condition PreparationFailed, with the reason ──► the scheduler deallocates the claim, and tries again
//	the claim is deleted, or not allocated any more, before kubelet asked for it ──► it is ended
//
// A condition is of one allocation: the API server removes it with the allocation. After a crash in between
// the claim has no condition, and is prepared again; one that was deleted meanwhile is ended by [Reconciler].
type binder struct {
	frontend *Frontend
	log      *slog.Logger
	// cancel ends the watch, and done its goroutines; nil while nothing is watched. Only Frontend.Run's
	// goroutine uses them.
	cancel context.CancelFunc
	done   sync.WaitGroup

	// mu guards what follows.
	mu    sync.Mutex
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// claims are those with such devices of this node.
	claims map[types.NamespacedName]*resourceapi.ResourceClaim
	// running are the preparations in progress.
	running map[types.NamespacedName]*unbound
	// synced: claims could be watched, and trouble is why they cannot be; nil if they can.
	synced  bool
	trouble error
	// unwritten is why the conditions of a claim could not be written. refusal is the last error for which the
	// agent lacks a permission, at refused, until one is written.
	unwritten map[types.NamespacedName]error
	refusal   error
	refused   time.Time
}

// unbound is a preparation in progress, for an allocation.
type unbound struct {
	claim  *resourceapi.ResourceClaim
	cancel context.CancelCauseFunc
}

func newBinder(f *Frontend) *binder {
	return &binder{
		frontend: f, log: f.log, claims: map[types.NamespacedName]*resourceapi.ResourceClaim{}, running: map[types.NamespacedName]*unbound{},
		unwritten: map[types.NamespacedName]error{},
	}
}

// errReallocated ends a preparation.
var errReallocated = errors.New("the claim was deleted, or is allocated otherwise")

// set stores a claim as it is now; nil for one that was deleted.
func (b *binder) set(name types.NamespacedName, c *resourceapi.ResourceClaim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.running[name]; p != nil && !sameAllocation(p.claim, c) {
		p.cancel(errReallocated)
	}
	_, known := b.claims[name]
	if c != nil && b.isOurs(c) {
		b.claims[name] = c
	} else {
		delete(b.claims, name)
		delete(b.unwritten, name)
	}
	if known || b.claims[name] != nil {
		b.queue.Add(name)
	}
}

// isOurs reports whether a pod waits, or waited, for a device of this node.
func (b *binder) isOurs(c *resourceapi.ResourceClaim) bool {
	return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results, b.isSlow)
}

func (b *binder) isSlow(r resourceapi.DeviceRequestAllocationResult) bool {
	return r.Pool == b.frontend.opts.NodeName && slices.Contains(r.BindingConditions, pool.ConditionPrepared)
}

// sameAllocation reports whether both are one allocation of one claim.
func sameAllocation(a, b *resourceapi.ResourceClaim) bool {
	return a != nil && b != nil && a.UID == b.UID && a.Status.Allocation != nil && apiequality.Semantic.DeepEqual(a.Status.Allocation, b.Status.Allocation)
}

// serve handles the claims that change, one of a name at a time, until the queue is shut down.
func (b *binder) serve(ctx context.Context, queue workqueue.TypedRateLimitingInterface[types.NamespacedName]) {
	for {
		name, ended := queue.Get()
		if ended {
			return
		}
		b.done.Go(func() {
			defer queue.Done(name)
			err := b.handle(ctx, name)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				b.log.Warn("a claim is not prepared before its pod is bound, and is tried again", "claim", name.String(), "error", err)
				queue.AddRateLimited(name)
				return
			}
			queue.Forget(name)
		})
	}
}

// handle does what a claim needs now. After an error it is called again.
func (b *binder) handle(ctx context.Context, name types.NamespacedName) error {
	b.mu.Lock()
	c := b.claims[name]
	b.mu.Unlock()
	var errs []error
	for _, old := range b.frontend.opts.Record.All() {
		if old.Unbound && old.String() == name.String() && (c == nil || c.UID != old.UID || !isAllocation(old, c)) {
			errs = append(errs, b.frontend.opts.End(ctx, old.ID()))
		}
	}
	if c != nil {
		for _, driver := range b.waiting(c) {
			errs = append(errs, b.prepare(ctx, name, c, driver))
		}
	}
	return errors.Join(errs...)
}

// waiting returns the drivers for whose devices a pod waits.
func (b *binder) waiting(c *resourceapi.ResourceClaim) (drivers []string) {
	if len(c.Status.ReservedFor) == 0 {
		return nil
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if b.isSlow(r) && !isDecided(c, r) && !slices.Contains(drivers, r.Driver) {
			drivers = append(drivers, r.Driver)
		}
	}
	return drivers
}

// isDecided reports whether a device of the claim has one of the conditions.
func isDecided(c *resourceapi.ResourceClaim, r resourceapi.DeviceRequestAllocationResult) bool {
	return slices.ContainsFunc(c.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
		return isOf(d, r) && (apimeta.IsStatusConditionTrue(d.Conditions, pool.ConditionPrepared) || apimeta.IsStatusConditionTrue(d.Conditions, pool.ConditionFailed))
	})
}

// isOf reports whether a status is that of a result of the allocation.
func isOf(d resourceapi.AllocatedDeviceStatus, r resourceapi.DeviceRequestAllocationResult) bool {
	var id types.UID
	if d.ShareID != nil {
		id = types.UID(*d.ShareID)
	}
	return d.Driver == r.Driver && d.Pool == r.Pool && d.Device == r.Device && id == share(r)
}

// prepare has a driver prepare a claim, and writes the conditions of the driver's devices.
func (b *binder) prepare(ctx context.Context, name types.NamespacedName, c *resourceapi.ResourceClaim, driver string) error {
	d := b.frontend.running()[driver]
	if d == nil {
		return fmt.Errorf("the driver %s does not run yet", driver)
	}
	allocated, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b.mu.Lock()
	b.running[name] = &unbound{c, cancel}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.running, name)
		b.mu.Unlock()
	}()
	now, err := b.read(allocated, name)
	if err != nil || !sameAllocation(c, now) || !slices.Contains(b.waiting(now), driver) {
		return err // of another allocation the watch will report
	}
	began := time.Now()
	deadline := began
	if at := now.Status.Allocation.AllocationTimestamp; at != nil {
		deadline = at.Time
	}
	deadline = deadline.Add(slowLimit)
	limited, stop := context.WithDeadlineCause(allocated, deadline, fmt.Errorf("the claim was allocated more than %s ago", slowLimit))
	defer stop()
	failure := d.prepareUnbound(limited, now, deadline)
	_, again := errors.AsType[lifecycle.TemporaryError](failure)
	switch {
	case allocated.Err() != nil:
		return nil
	case again && time.Until(deadline) > retryLimit:
		return failure
	case failure != nil:
		d.log.Warn("a claim was not prepared before its pod is bound", "claim", name.String(), "error", failure)
	default:
		d.log.Info("a claim was prepared before its pod is bound", "claim", name.String(), "took", time.Since(began).Round(time.Millisecond))
	}
	err = b.write(allocated, name, c, driver, failure)
	b.written(allocated, name, err)
	return err
}

// written records that the conditions of a claim were written, or why not. ctx ends with its allocation.
func (b *binder) written(ctx context.Context, name types.NamespacedName, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unwritten, name)
	if ctx.Err() != nil {
		return
	}
	switch {
	case err == nil:
		b.refusal = nil
	case isRefused(err):
		b.refusal, b.refused = err, time.Now()
		fallthrough
	default:
		b.unwritten[name] = err
	}
	wake.Send(b.frontend.wake) // isAllowed may have changed
}

// read returns a claim as it is now; nil if there is none.
func (b *binder) read(ctx context.Context, name types.NamespacedName) (*resourceapi.ResourceClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	c, err := b.frontend.opts.Client.ResourceV1().ResourceClaims(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return c, err
}

// problems returns, for the operator, why claims are not prepared before their pods are bound.
func (b *binder) problems() (all []inventory.Problem) {
	b.mu.Lock()
	defer b.mu.Unlock()
	add := func(format string, err error) {
		if err != nil {
			all = append(all, inventory.Problem{Message: "dynamic resource allocation: " + fmt.Sprintf(format, err)})
		}
	}
	if message, ok := kubeapi.Forbidden(b.trouble, "watch", "resourceclaims", ""); ok {
		add("claims cannot be watched, so devices that are slow to prepare are prepared when their containers start: %v", errors.New(message))
	} else {
		add("claims cannot be watched, so pods that wait for devices that are slow to prepare wait longer: %v", b.trouble)
	}
	if len(b.unwritten) == 0 {
		add("conditions could not be written, so devices that are slow to prepare are prepared when their containers start: %v", b.refusal)
	}
	for _, name := range slices.SortedFunc(maps.Keys(b.unwritten), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		add("the conditions of claim "+name.String()+" could not be written, and its pod waits: %v", b.unwritten[name])
	}
	return all
}

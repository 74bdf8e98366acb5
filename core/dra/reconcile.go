package dra

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/wake"
)

// readLimit bounds the time in which the API server must answer with one claim.
const readLimit = 5 * time.Second

// ReconcilerOptions are the options of [NewReconciler]. All are required, except Client, Interval and
// Log.
type ReconcilerOptions struct {
	Record    *holders.Claims
	Lifecycle Lifecycle
	// Client reads claims; without it no claim is ended.
	Client kubernetes.Interface
	// Listed returns the CDI names of the claims that kubelet's pods have, or an error if that is not
	// known; [podresources.Kubelet.ListedCDI] does that.
	Listed func(ctx context.Context) (map[string]bool, error)
	// BootID is the kernel's identification of this boot.
	BootID string
	// KubeletRootDir and CDIDir are those of the drivers.
	KubeletRootDir, CDIDir string
	// Interval is how often the record is compared. Default 1 min.
	Interval time.Duration
	Log      *slog.Logger
}

// Reconciler compares the record of claims with kubelet's pods and with the API server. It ends
// claims of which kubelet's unprepare never came, of all drivers, whether they run or not:
//
//	kubelet lists a pod with the claim ──► it is not read: kubelet knows it, and unprepares it
//	the API server does not have the claim, or has it without these devices or without a pod
//	still so half a minute later, when it is asked again, and kubelet lists no pod with it ──► ended
//	the claim was prepared in an earlier boot, or before its pod was bound and kubelet has not asked for it,
//	and the API server says so when asked again ──► ended
//	the file cannot be read, and for half a minute kubelet lists no pod with the claim ──► ended
//	a device is made for a claim that is not in the record, and for half a minute kubelet lists no pod
//	with that claim ──► the device is released
//	the API server or kubelet does not answer ──► nothing is ended
//
// Kubelet itself unprepares claims of pods that it knew, also after its restart. What is left are
// those of a kubelet that lost its state, and of a node whose pods were deleted while it was down.
//
// A claim that has a device which is refused to another one is read in any case, see Ended.
//
// The definitions of claims are kept on disk by package cdi, as those of devices.
type Reconciler struct {
	opts ReconcilerOptions
	log  *slog.Logger
	// wake is signalled when a claim is found to have ended between two rounds.
	wake chan struct{}

	// mu guards what follows.
	mu sync.Mutex
	// ended is since when a claim has been found to have ended.
	ended map[holders.ClaimID]time.Time
	// undefined are claims whose definitions could not be restored, problems what the latest round
	// found.
	undefined map[holders.ClaimID]string
	problems  []string
}

// NewReconciler returns a Reconciler. Call Restore first, then Run.
func NewReconciler(opts ReconcilerOptions) *Reconciler {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	opts.Interval = cmp.Or(opts.Interval, time.Minute)
	return &Reconciler{opts: opts, log: opts.Log, wake: make(chan struct{}, 1), ended: map[holders.ClaimID]time.Time{}, undefined: map[holders.ClaimID]string{}}
}

// Restore writes the definitions of the claims of the record that were
// prepared in this boot. Others must be prepared again, which kubelet calls for before it starts
// a container. Call Restore before drivers run.
func (r *Reconciler) Restore() {
	for _, c := range r.opts.Record.All() {
		r.define(c)
	}
}

// define writes the definitions of a claim that was prepared in this boot. If that fails, the next
// round tries again.
func (r *Reconciler) define(c *holders.ClaimRecord) {
	var err error
	if c.Prepared && c.BootID == r.opts.BootID {
		err = r.opts.Lifecycle.RestoreDefinitions(c)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if delete(r.undefined, c.ID()); err != nil {
		r.undefined[c.ID()] = fmt.Sprintf("claim %s: its definitions could not be written, and its containers cannot restart: %v", c, err)
		r.log.Warn("the definitions of a claim were not restored", "driver", c.Driver, "claim", c.String(), "error", err)
	}
}

// Run compares at once and then at intervals, until ctx ends, and returns nil. While a claim that has
// ended waits for its end, the intervals are shorter.
func (r *Reconciler) Run(ctx context.Context) error {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
			next.Reset(r.opts.Interval / 6)
		case <-next.C:
			if r.round(ctx) {
				next.Reset(r.opts.Interval / 6)
			} else {
				next.Reset(backoff.Jitter(r.opts.Interval))
			}
		}
	}
}

// round compares each claim once, and reports whether one that has ended waits: for its time, or for
// kubelet.
func (r *Reconciler) round(ctx context.Context) (waits bool) {
	r.redefine(ctx)
	all, unreadable := r.opts.Record.All(), r.opts.Record.Unreadable()
	unknown := r.unknown(all, unreadable)
	r.forget(all, slices.Concat(unreadable, slices.Collect(maps.Values(unknown))))
	var problems []string
	var listed map[string]bool
	var unlisted error // why that is not known
	if len(all)+len(unreadable)+len(unknown) > 0 {
		listed, unlisted = r.opts.Listed(ctx)
	}
	found := func(i holders.ClaimID, ended, mayRun bool, end func() error) {
		since := r.found(i, ended)
		switch {
		case !ended:
		case mayRun && time.Since(since) < r.opts.Interval/2:
			waits = true
		default:
			waits = waits || unlisted != nil
			if err := end(); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	for _, c := range all {
		if r.mayRun(c) && lists(listed, c) && !r.hasEnded(c.ID()) {
			continue
		}
		why, err := r.why(ctx, c, metav1.GetOptions{ResourceVersion: "0"}) // the API server's cache is good enough here
		if err != nil {
			problems = append(problems, err.Error())
			break
		}
		found(c.ID(), why != "", r.mayRun(c), func() error { return r.End(ctx, c.ID()) })
	}
	for _, i := range unreadable {
		if unlisted == nil {
			found(i, !isListed(listed, i), true, func() error { return r.endUnread(ctx, i) })
		}
	}
	for device, i := range unknown {
		if unlisted == nil {
			found(i, !isListed(listed, i), true, func() error { return r.endUnknown(i, device) })
		}
	}
	if ctx.Err() != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = problems
	return waits
}

// Ended asks the API server why a claim that has a device has ended though kubelet has not unprepared
// it; "" if it has not ended, or if that is not known. One that has ended is compared soon, also if
// kubelet lists a pod with it.
func (r *Reconciler) Ended(ctx context.Context, i holders.ClaimID) string {
	c := r.opts.Record.Get(i.Driver, i.UID)
	if c == nil {
		return ""
	}
	why, err := r.why(ctx, c, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || why == "" {
		return ""
	}
	if isNew := !r.hasEnded(c.ID()); isNew {
		r.found(c.ID(), true)
		wake.Send(r.wake)
	}
	return why
}

// found records whether a claim has ended, and returns since when that is known.
func (r *Reconciler) found(i holders.ClaimID, ended bool) (since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !ended {
		delete(r.ended, i)
		return time.Time{}
	}
	if _, ok := r.ended[i]; !ok {
		r.ended[i] = time.Now()
	}
	return r.ended[i]
}

// hasEnded reports whether a claim was found to have ended, and not found otherwise since.
func (r *Reconciler) hasEnded(i holders.ClaimID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.ended[i]
	return ok
}

// forget drops what was found of claims that are no longer in the record.
func (r *Reconciler) forget(all []*holders.ClaimRecord, unreadable []holders.ClaimID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.ended, func(i holders.ClaimID, _ time.Time) bool {
		return !slices.Contains(unreadable, i) && !slices.ContainsFunc(all, func(c *holders.ClaimRecord) bool { return c.ID() == i })
	})
}

// redefine writes the definitions that could not be written before.
func (r *Reconciler) redefine(ctx context.Context) {
	r.mu.Lock()
	undefined := slices.Collect(maps.Keys(r.undefined))
	r.mu.Unlock()
	for _, i := range undefined {
		unlock, err := r.opts.Record.Lock(ctx, i)
		if err != nil {
			continue // the next round tries again
		}
		if c := r.opts.Record.Get(i.Driver, i.UID); c != nil {
			r.define(c)
		} else {
			r.mu.Lock()
			delete(r.undefined, i)
			r.mu.Unlock()
		}
		unlock()
	}
}

// why returns why a claim has ended for the API server; "" if it has not. The error is a problem.
func (r *Reconciler) why(ctx context.Context, c *holders.ClaimRecord, options metav1.GetOptions) (string, error) {
	if r.opts.Client == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	found, err := r.opts.Client.ResourceV1().ResourceClaims(c.Namespace).Get(ctx, c.Name, options)
	switch {
	case apierrors.IsNotFound(err):
		return "it was deleted", nil
	case err != nil:
		if text, ok := kubeapi.Forbidden(err, "get", "resourceclaims", ""); ok {
			err = errors.New(text)
		}
		return "", fmt.Errorf("claims cannot be read, and those that have ended without kubelet's unprepare stay: %w", err)
	case found.UID != c.UID:
		return "it was deleted, and another claim has its name", nil
	case found.Status.Allocation == nil:
		return "it is not allocated", nil
	case !isAllocation(c, found):
		return "it was allocated again, with other devices", nil
	case len(found.Status.ReservedFor) == 0 && !c.Unbound: // the scheduler may reserve it again
		return "it is not reserved for any pod", nil
	}
	return "", nil
}

// End ends a claim, if it has ended for the API server, unless kubelet lists a pod with it.
func (r *Reconciler) End(ctx context.Context, i holders.ClaimID) error {
	unlock, err := r.opts.Record.Lock(ctx, i)
	if err != nil {
		return fmt.Errorf("end claim %s of driver %s: %w", i.UID, i.Driver, err)
	}
	defer unlock()
	c := r.opts.Record.Get(i.Driver, i.UID)
	if c == nil {
		return nil
	}
	why, err := r.why(ctx, c, metav1.GetOptions{})
	if err != nil || why == "" {
		return err
	}
	if err := r.Unused(ctx, c); err != nil {
		return fmt.Errorf("claim %s has ended for the API server (%s), but %w", c, why, err)
	}
	if err := r.endClaim(c.Claim); err != nil {
		return fmt.Errorf("end claim %s (%s): %w", c, why, err)
	}
	r.log.Info("ended a claim that kubelet did not unprepare", "driver", i.Driver, "claim", c.String(), "uid", i.UID, "reason", why)
	return nil
}

// Unused returns an error if a container with the claim may run: kubelet lists a pod with it, or its pods are not known.
func (r *Reconciler) Unused(ctx context.Context, c *holders.ClaimRecord) error {
	if !r.mayRun(c) {
		return nil
	}
	listed, err := r.opts.Listed(ctx)
	if err != nil {
		return fmt.Errorf("its devices stay held until kubelet's pods are known: %w", err)
	}
	if lists(listed, c) {
		return errors.New("kubelet has a pod with it: its devices stay held until that pod is gone")
	}
	return nil
}

// mayRun reports whether a container with the claim may run: none has outlived an earlier boot, and none
// has it before kubelet asks for it.
func (r *Reconciler) mayRun(c *holders.ClaimRecord) bool {
	return c.BootID == r.opts.BootID && !c.Unbound
}

// lists reports whether kubelet lists a pod with the claim. Its CDI names have the claim's UID, and are
// not those of another claim of the same name.
func lists(listed map[string]bool, c *holders.ClaimRecord) bool {
	return slices.ContainsFunc(c.Devices, func(d holders.ClaimDevice) bool { return listed[d.CDI] })
}

// isListed does the same for a claim whose devices are not known.
func isListed(listed map[string]bool, i holders.ClaimID) bool {
	for name := range listed {
		if _, uid := cdi.ParseHolderName(name); uid == string(i.UID) {
			return true
		}
	}
	return false
}

// Problems returns, for the operator, what the latest round found, and the claims whose definitions
// could not be restored.
func (r *Reconciler) Problems() []inventory.Problem {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []inventory.Problem
	for _, message := range slices.Concat(slices.SortedFunc(maps.Values(r.undefined), strings.Compare), r.problems) {
		all = append(all, inventory.Problem{Message: "dynamic resource allocation: " + message})
	}
	return all
}

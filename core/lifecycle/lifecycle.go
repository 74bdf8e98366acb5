// Package lifecycle is the only way to the backends' hooks. It takes devices for a holder
// (Take), has them prepared before a container starts (Prepare), has them released when the
// holder has ended (Release), and has faulted ones reset (Reset):
//
//	frontend ──Take, Return, Prepare──► Lifecycle ──► Prepare, Release, Reset of a backend
//	book of holders ──────Ended───────►     │
//	round of the pipeline ─Update─────►     └──► CDI definitions of a holder's own
//
// Which operation may begin, and who holds what, is decided by the book (package holders).
// A frontend, such as package deviceplugin, translates the calls of its protocol.
package lifecycle

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/wake"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Backends calls the hooks of the running backends; [supervisor.Supervisor] implements it.
// ended is called once, when the backend no longer works on the devices.
type Backends interface {
	// Users returns the processes that have one of the nodes open, but for the backend's own.
	Users(ctx context.Context, backend string, nodes []inventory.DeviceNode) (openfiles.Processes, error)
	Prepare(ctx context.Context, backend string, r *backendv1.PrepareRequest, limit time.Duration, ended func()) (*backendv1.PrepareResponse, error)
	Release(ctx context.Context, backend string, r *backendv1.ReleaseRequest, ended func()) (*backendv1.ReleaseResponse, error)
	Reset(ctx context.Context, backend string, ids []string, ended func()) (*backendv1.ResetResponse, error)
}

// Definitions writes the CDI definitions of holders' own edits; [cdi.Store] implements it.
type Definitions interface {
	Define(all []cdi.HolderDefinition, live func(name string) bool) error
	Undefine(devices []inventory.Key, live func(name string) bool) error
}

// Health gets the results of resets; [health.Judge] implements it.
type Health interface {
	ResetDone(device inventory.Key, recovered bool, message string)
	// Excuse is for a device that was reset after use from then on, without any fault.
	Excuse(device inventory.Key, began time.Time)
}

// Options of [New]. All but Pods, NodeName, Log and the backoffs are required.
type Options struct {
	Book        *holders.Book
	Backends    Backends
	Definitions Definitions
	Health      Health
	// Round returns the newest round, nil before the first.
	Round func() *round.Round
	// Host gives access to the host's files, of which Prepare may return some.
	Host inventory.Host
	// Pods reads a pod from the API server, for parameters that it gives; nil without one.
	// NodeName, if not "", is the node on which the pod must be.
	Pods     func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	NodeName string
	// Changed is called when the result of Faults may have changed, and after a reset, which may have kept
	// the next one of its group waiting: it must lead to an Update. Released and Reset are called after each
	// attempt, with nil or why it failed. None of them may block.
	Changed  func()
	Released func(device inventory.Key, err error)
	Reset    func(backend string, err error)
	Log      *slog.Logger
	// ReleaseBackoff and ResetBackoff are the pauses after the first attempt that failed;
	// they double up to 64 times that. Defaults 1 s and 10 s.
	ReleaseBackoff, ResetBackoff time.Duration
}

// The longest pause between two attempts is maxDoubled times the first.
const maxDoubled = 64

// Lifecycle takes, prepares, releases and resets devices. Its methods are safe for
// concurrent use.
type Lifecycle struct {
	opts       Options
	log        *slog.Logger
	resets     *resets
	unreleased unreleased
	failed     failedPreparations
	// updated is signalled when there is a newer round.
	updated chan struct{}
	// calls are the releases and resets in progress, and the waits between two.
	calls sync.WaitGroup
}

// New returns a Lifecycle. Until Run runs, nothing is released or reset.
func New(opts Options) *Lifecycle {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.ReleaseBackoff <= 0 {
		opts.ReleaseBackoff = time.Second
	}
	if opts.ResetBackoff <= 0 {
		opts.ResetBackoff = 10 * time.Second
	}
	l := &Lifecycle{opts: opts, log: opts.Log, updated: make(chan struct{}, 1)}
	l.resets = newResets(l)
	return l
}

// Run releases the devices of holders that ended, and resets faulted devices, until ctx
// ends. It returns nil when no call is in progress any more. What could not be released by
// then is released after a restart.
func (l *Lifecycle) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			l.calls.Wait()
			return nil
		case ended := <-l.opts.Book.Ended():
			l.release(ctx, ended)
			continue
		case <-l.updated:
		case <-timer.C:
		}
		if v := l.opts.Round(); v != nil {
			next := l.resets.consider(ctx, v)
			changed, expires := l.failed.expire()
			if changed {
				l.opts.Changed()
			}
			if next.IsZero() || !expires.IsZero() && expires.Before(next) {
				next = expires
			}
			if !next.IsZero() {
				timer.Reset(max(time.Until(next), 0))
			}
		}
	}
}

// Update signals that there is a newer round. It does not block.
func (l *Lifecycle) Update() { wake.Send(l.updated) }

// Request is what one holder has or is to get of a resource.
type Request struct {
	Resource string
	// Units are at least one.
	Units []Unit
	// Unknown lists the IDs of further units whose device is no longer known.
	Unknown []string
}

// Unit is what is allocated as one: a device, or one of its replicas.
type Unit struct {
	// ID is unique among the units of the resource.
	ID     string
	Device *inventory.Device
}

// ids returns the IDs of the units whose device is known.
func (r Request) ids() []string {
	ids := make([]string, len(r.Units))
	for i, u := range r.Units {
		ids[i] = u.ID
	}
	return ids
}

// definition returns the CDI name of the holder's own definition, and the device that owns
// it: the device of the smallest unit ID, also if only the book knows that unit.
func (l *Lifecycle) definition(r Request) (name string, device inventory.Key) {
	first := r.Units[0]
	for _, u := range r.Units[1:] {
		if u.ID < first.ID {
			first = u
		}
	}
	device = first.Device.Key
	if len(r.Unknown) > 0 {
		if id := slices.Min(r.Unknown); id < first.ID {
			if held, ok := l.opts.Book.DeviceOf(r.Resource, id); ok {
				device = held
			}
		}
	}
	return cdi.HolderName(device, r.Resource, slices.Concat(r.ids(), r.Unknown)), device
}

// needsPrepare reports whether the unit's device is prepared before each start.
func needsPrepare(u Unit) bool { return u.Device.Hooks.Prepare }

// Take allocates the units to a new holder. It returns before the allocation is on disk; see
// [holders.Book.Take]. name is the CDI name of the holder's own definition; "" if it has none.
func (l *Lifecycle) Take(ctx context.Context, r Request) (name string, err error) {
	if err := l.opts.Book.Take(ctx, r.Resource, l.bookUnits(r.Units)); err != nil {
		return "", err
	}
	if slices.ContainsFunc(r.Units, needsPrepare) {
		name, _ = l.definition(r)
	}
	return name, nil
}

// Return undoes a Take: the allocation was refused later.
func (l *Lifecycle) Return(r Request) {
	l.opts.Book.Return(r.Resource, l.bookUnits(r.Units))
}

func (l *Lifecycle) bookUnits(units []Unit) []holders.Unit {
	v := l.opts.Round()
	all := make([]holders.Unit, len(units))
	for i, u := range units {
		all[i] = holders.Unit{ID: u.ID, Device: u.Device.Key, Prepared: needsPrepare(u), Reset: v.ResetScope(u.Device)}
	}
	return all
}

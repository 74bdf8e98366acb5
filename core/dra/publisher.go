package dra

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/wake"
)

const (
	// syncDelay is how long the controller waits before it writes slices again that another
	// client changed or deleted. Kubelet deletes a node's slices when it starts; with the default
	// of 30 s new pods would wait that long.
	syncDelay = time.Second
	// firstPause and maxPause bound the pause until slices that the API server does not have yet
	// are looked for again.
	firstPause = 200 * time.Millisecond
	maxPause   = 10 * time.Second
	// callLimit bounds a request to the API server.
	callLimit = 10 * time.Second
	// withdrawLimit bounds the deletion of all slices: then kubelet deletes them.
	withdrawLimit = 30 * time.Second
	// featuresInterval is how often a feature that the API server did not have is looked for
	// again: the cluster may have been upgraded.
	featuresInterval = time.Hour
)

// publisher writes the slices of a driver: package resourceslice does that, and the publisher gives
// it the newest pool, and finds out whether the API server has accepted it.
type publisher struct {
	driver *Driver
	// wake is signalled when there is another publication, failed when the controller failed.
	wake, failed chan struct{}
	// slices is nil before the first publication. Only run's goroutine uses it.
	slices *resourceslice.Controller

	// mu guards what follows.
	mu sync.Mutex
	// features are those of the API server, found at probed; zero: they must be found.
	features pool.Features
	probed   time.Time
	// pool is what the controller publishes; nil before the first publication. of and with are what it
	// was made of. accepted: the API server has it.
	pool     *pool.Pool
	of       Publication
	with     pool.Features
	accepted bool
	// refusal is the last error of the controller, trouble that of the publisher; nil if the
	// publication goes on well.
	refusal, trouble error
}

func newPublisher(d *Driver) *publisher {
	return &publisher{driver: d, wake: make(chan struct{}, 1), failed: make(chan struct{}, 1)}
}

// run publishes what the driver has, whenever that changed, until ctx ends.
func (p *publisher) run(ctx context.Context) {
	defer func() { p.slices.Stop() }()
	pauses := backoff.New(firstPause, maxPause)
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.failed:
			retry.Reset(pauses.Step())
			continue
		case <-p.wake:
			pauses = backoff.New(firstPause, maxPause)
		case <-retry.C:
		}
		publication := p.driver.newest()
		if !publication.Complete {
			continue
		}
		if p.step(ctx, publication) {
			pauses = backoff.New(firstPause, maxPause)
			retry.Reset(featuresInterval)
		} else {
			retry.Reset(pauses.Step())
		}
	}
}

// step publishes, and reports whether the API server has what is published.
func (p *publisher) step(ctx context.Context, publication Publication) bool {
	err := p.probe(ctx)
	var changed, accepted bool
	if err == nil {
		changed, err = p.publish(ctx, publication)
	}
	if err == nil && !changed { // what changed just now is not stored yet
		accepted, err = p.isAccepted(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && ctx.Err() == nil && (p.trouble == nil || p.trouble.Error() != err.Error()) {
		p.driver.log.Warn("the devices of a DRA driver are not published", "error", err)
	}
	p.trouble = err
	if accepted {
		p.accepted, p.refusal = true, nil
	}
	return accepted
}

// probe finds the features of the API server, if that is due.
func (p *publisher) probe(ctx context.Context) error {
	p.mu.Lock()
	known := !p.probed.IsZero() && (p.features.Taints && p.features.Shares && p.features.Counters && p.features.Binding || time.Since(p.probed) < featuresInterval)
	p.mu.Unlock()
	if known {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	began := time.Now()
	features, err := probe(limited, p.driver.opts.Client, p.driver.opts.Name, p.driver.opts.NodeName)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.features, p.probed = features, began
	return nil
}

// next returns the pool of a publication, and whether the controller publishes an equal one. To make and
// to compare the pools takes 0.1 s of 4,096 devices, and most rounds change nothing that is published.
func (p *publisher) next(publication Publication) (next *pool.Pool, same bool) {
	p.mu.Lock()
	before, of, with, features := p.pool, p.of, p.with, p.features
	features.Binding = features.Binding && publication.Binding
	p.of, p.with = publication, features
	p.mu.Unlock()
	if before != nil && features == with && publication.equals(of) {
		return before, true
	}
	next = pool.New(pool.Options{
		Backend: publication.Backend, Devices: publication.Devices, LinkGroups: publication.LinkGroups,
		Features: features, Evict: publication.Evict,
	})
	same = before != nil && slices.EqualFunc(before.Slices, next.Slices, func(a, b resourceslice.Slice) bool {
		return resourceslice.DevicesDeepEqual(a.Devices, b.Devices) && apiequality.Semantic.DeepEqual(a.SharedCounters, b.SharedCounters)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pool, p.accepted = next, p.accepted && same
	return next, same
}

// hasBinding reports whether the API server has binding conditions, as far as that is known.
func (p *publisher) hasBinding() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.features.Binding
}

// equals reports whether both give the same pool, as far as that is known without making them.
func (p Publication) equals(o Publication) bool {
	sameSets := p.Backend == o.Backend || len(p.Backend.CounterSets)+len(o.Backend.CounterSets) == 0 // of which all devices may consume
	return p.Evict == o.Evict && sameSets && reflect.DeepEqual(p.Backend.Description, o.Backend.Description) && slices.EqualFunc(p.Devices, o.Devices, func(a, b resource.Device) bool {
		return a.Device == b.Device && a.Verdict.Same(b.Verdict) && a.Resource == b.Resource && p.LinkGroups[a.ID] == o.LinkGroups[b.ID]
	})
}

// publish has the controller publish the pool, unless it does already, and reports whether it had to.
func (p *publisher) publish(ctx context.Context, publication Publication) (changed bool, err error) {
	d := p.driver
	next, same := p.next(publication)
	p.mu.Lock()
	refused := p.refusal != nil // the controller itself tries again less and less often
	p.mu.Unlock()
	if same && p.slices != nil && !refused {
		return false, nil
	}
	resources := &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.opts.NodeName: next.Pool}}
	if p.slices != nil {
		p.slices.Update(resources)
		return !same, nil
	}
	if _, err := p.list(ctx); err != nil { // for which StartController would wait without a word
		return false, fmt.Errorf("list the slices: %w", err)
	}
	delay := syncDelay
	started, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName: d.opts.Name, KubeClient: d.opts.Client, Resources: resources, SyncDelay: &delay,
		Owner:        &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: d.opts.NodeName},
		ErrorHandler: p.refused,
	})
	if err != nil {
		return false, fmt.Errorf("publish slices: %w", err)
	}
	p.slices = started
	return true, nil
}

// refused is called with the errors of the controller, which tries again. If the API server dropped
// fields, its features may have changed.
func (p *publisher) refused(_ context.Context, err error, message string) {
	p.driver.log.Warn("publishing slices failed", "message", message, "error", err)
	dropped := errors.As(err, new(*resourceslice.DroppedFieldsError))
	p.mu.Lock()
	p.refusal, p.accepted = fmt.Errorf("%s: %w", message, err), false
	if dropped {
		p.probed = time.Time{}
	}
	p.mu.Unlock()
	wake.Send(p.failed)
}

// isAccepted reports whether the API server has the slices that are published.
func (p *publisher) isAccepted(ctx context.Context) (bool, error) {
	p.mu.Lock()
	want, accepted := p.pool, p.accepted
	p.mu.Unlock()
	if accepted {
		return true, nil
	}
	stored, err := p.list(ctx)
	if err != nil {
		return false, fmt.Errorf("read the published slices: %w", err)
	}
	slices.SortFunc(stored, func(a, b resourceapi.ResourceSlice) int { return strings.Compare(a.Name, b.Name) })
	return slices.EqualFunc(stored, want.Slices, func(s resourceapi.ResourceSlice, w resourceslice.Slice) bool {
		return s.Spec.Pool.ResourceSliceCount == int64(len(want.Slices)) && s.Spec.Pool.Generation == stored[0].Spec.Pool.Generation && resourceslice.DevicesDeepEqual(s.Spec.Devices, w.Devices) &&
			apiequality.Semantic.DeepEqual(s.Spec.SharedCounters, w.SharedCounters)
	}), nil
}

// list returns the driver's slices of this node, which may include old ones.
func (p *publisher) list(ctx context.Context) ([]resourceapi.ResourceSlice, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	all, err := p.driver.opts.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		resourceapi.ResourceSliceSelectorDriver: p.driver.opts.Name, resourceapi.ResourceSliceSelectorNodeName: p.driver.opts.NodeName,
	}.String()})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}

// withdraw deletes the slices. run must have ended.
func (p *publisher) withdraw(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, withdrawLimit)
	defer cancel()
	stored, err := p.list(ctx)
	errs := []error{err}
	for _, slice := range stored {
		err := p.driver.opts.Client.ResourceV1().ResourceSlices().Delete(ctx, slice.Name, metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete the slices of the DRA driver %s: %w; kubelet deletes them 30 s after the driver is gone", p.driver.opts.Name, err)
	}
	return nil
}

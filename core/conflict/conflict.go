package conflict

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/accelmux/accelmux/core/text"
)

// Devices are IDs of the device plugin API by resource, and whether each is healthy.
type Devices map[string]map[string]bool

// Options of [New]. All functions are required.
type Options struct {
	// Advertised returns the devices of the resources that kubelet accepts from this agent
	// now, as in the newest list.
	Advertised func() Devices
	// Allocatable returns the healthy devices that kubelet has (GetAllocatableResources of
	// the pod-resources API).
	Allocatable func(context.Context) (Devices, error)
	// Sockets returns those in kubelet's directories on which other device plugins listen.
	Sockets func(context.Context) []string
	// Found is called once for each conflict, when it begins. It must not block.
	Found func(Conflict)
	// Register registers a resource with kubelet again. It must not block.
	Register func(resource string)
	// Log is where the detector logs; nil discards.
	Log    *slog.Logger
	Timing Timing
}

// Timing are the detector's intervals. The zero value is right for a node.
type Timing struct {
	// Compare is the interval of the comparisons. Default 1m.
	Compare time.Duration
	// Confirm is how long after a difference the next comparison follows. Default 10s.
	Confirm time.Duration
}

// Conflict is another device plugin that serves a resource.
type Conflict struct {
	Resource string
	Since    time.Time
	// Message says which devices kubelet has, and what to do.
	Message string
}

// Detector compares devices. Its methods are safe for concurrent use.
type Detector struct {
	opts Options
	// unconfirmed are the differences that one comparison has found, by resource, and
	// attempts what was done about those in conflict. Run's own.
	unconfirmed map[string]string
	attempts    map[string]*attempt

	mu        sync.Mutex
	conflicts map[string]Conflict
}

// attempt is what was done about a conflict.
type attempt struct {
	sockets    []string // of other plugins at the last comparison
	registered bool
}

// New returns a detector; Run runs it.
func New(opts Options) *Detector {
	opts.Timing.Compare = cmp.Or(opts.Timing.Compare, time.Minute)
	opts.Timing.Confirm = cmp.Or(opts.Timing.Confirm, 10*time.Second)
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Detector{opts: opts, unconfirmed: map[string]string{}, attempts: map[string]*attempt{}, conflicts: map[string]Conflict{}}
}

// Run compares until ctx ends. It returns nil.
func (d *Detector) Run(ctx context.Context) error {
	timer := time.NewTimer(d.opts.Timing.Confirm)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			timer.Reset(d.compare(ctx))
		case <-ctx.Done():
			return nil
		}
	}
}

// Conflicts returns the conflicts there are now, sorted by resource; none if d is nil.
func (d *Detector) Conflicts() []Conflict {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.conflicts), func(a, b Conflict) int { return cmp.Compare(a.Resource, b.Resource) })
}

// compare compares once, and returns when to do so again. If kubelet does not answer, what
// was found before stays.
func (d *Detector) compare(ctx context.Context) time.Duration {
	before, kubelets := d.opts.Advertised(), Devices{}
	if len(before) > 0 {
		var err error
		if kubelets, err = d.opts.Allocatable(ctx); err != nil {
			d.opts.Log.Debug("compare kubelet's devices with the advertised ones", "error", err)
			return d.opts.Timing.Compare
		}
	}
	after := d.opts.Advertised() // a change meanwhile is no difference
	sockets, differences := d.opts.Sockets(ctx), map[string]string{}
	for resource := range before {
		if text := difference(before[resource], after[resource], kubelets[resource]); text != "" {
			differences[resource] = "kubelet's devices of " + resource + " are not those of this agent: " + text
		} else if path := socketFor(resource, sockets); path != "" {
			differences[resource] = "another device plugin listens on " + path + ", which is named after " + resource
		}
	}
	// First those in which this comparison may find no difference any more: kubelet 1.37 keeps the devices of a plugin that
	// has ended, and they may have the same IDs.
	d.register(sockets, kubelets)
	d.update(differences)
	if len(differences) > 0 {
		return d.opts.Timing.Confirm
	}
	return d.opts.Timing.Compare
}

// update replaces the conflicts by those of one comparison.
func (d *Detector) update(differences map[string]string) {
	const advice = ": is the vendor's own device plugin, or another accelmux, still on this node? " +
		"Remove it, and this agent registers again; or give the resource another name"
	var found []Conflict
	d.mu.Lock()
	for resource, text := range differences {
		c, known := d.conflicts[resource]
		if !known && d.unconfirmed[resource] != text {
			continue
		}
		c.Resource, c.Message = resource, text+advice
		if !known {
			c.Since = time.Now()
			found = append(found, c)
		}
		d.conflicts[resource] = c
	}
	ended := func(resource string) bool { return differences[resource] == "" }
	maps.DeleteFunc(d.conflicts, func(resource string, _ Conflict) bool { return ended(resource) })
	maps.DeleteFunc(d.attempts, func(resource string, _ *attempt) bool { return ended(resource) })
	d.unconfirmed = differences
	d.mu.Unlock()
	for _, c := range found {
		d.opts.Log.Error("a conflicting device plugin is on this node", "resource", c.Resource, "error", c.Message)
		d.opts.Found(c)
	}
}

// register registers the resources whose conflicting plugin has ended: once for each
// conflict, and again only after a further socket has closed.
func (d *Detector) register(sockets []string, kubelets Devices) {
	for _, c := range d.Conflicts() {
		a := d.attempts[c.Resource]
		if a == nil {
			a = &attempt{}
			d.attempts[c.Resource] = a
		}
		closed := slices.ContainsFunc(a.sockets, func(s string) bool { return !slices.Contains(sockets, s) })
		a.sockets = sockets
		if closed || !a.registered && (len(sockets) == 0 || len(kubelets[c.Resource]) == 0) {
			a.registered = true
			d.opts.Log.Info("registering the resource again: no other plugin's socket is open, one has closed, or kubelet has no device of it", "resource", c.Resource)
			d.opts.Register(c.Resource)
		}
	}
}

// socketFor returns the socket that is named after a resource as the vendors' plugins name theirs; "" if none is. A plugin
// that advertises the same devices as this agent is found by nothing else: nvidia-gpu.sock (k8s-device-plugin),
// amd.com_gpu (k8s-device-plugin of AMD, SR-IOV), gpu.intel.com-i915.sock (intel-device-plugins).
func socketFor(resource string, sockets []string) string {
	domain, name, _ := strings.Cut(resource, "/")
	vendor, _, _ := strings.Cut(domain, ".")
	for _, path := range sockets {
		switch strings.TrimSuffix(filepath.Base(path), ".sock") {
		case vendor + "-" + name, domain + "-" + name, domain + "_" + name:
			return path
		}
	}
	return ""
}

// maxNamed bounds the devices that a message names.
const maxNamed = 3

// difference says how kubelet's healthy devices of a resource differ from the advertised
// ones; "" if they do not. A device counts as missing only if it was advertised as healthy
// both before and after kubelet was asked.
func difference(before, after, kubelets map[string]bool) string {
	var foreign, missing []string
	for id := range kubelets {
		_, was := before[id]
		if _, is := after[id]; !was && !is {
			foreign = append(foreign, id)
		}
	}
	for id, healthy := range before {
		if healthy && after[id] && !kubelets[id] {
			missing = append(missing, id)
		}
	}
	var parts []string
	for _, p := range []struct {
		what string
		ids  []string
	}{{"it has", foreign}, {"it lacks", missing}} {
		if len(p.ids) == 0 {
			continue
		}
		slices.Sort(p.ids)
		parts = append(parts, p.what+" "+text.First(p.ids, maxNamed))
	}
	return strings.Join(parts, "; ")
}

package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// samplePeriod is how often kubelet's device manager is asked. Kubelet answers 100
// calls a second; the rest is for the agent.
const samplePeriod = 11 * time.Millisecond

// blindLimit is how long kubelet, which shares the machine with all of Kubernetes, may
// leave a witness without an answer: 0.1 s and less on a quiet machine. The watch of
// node.status misses nothing meanwhile.
const blindLimit = 30 * time.Second

// The views of a resource that a witness has.
const (
	viewCapacity    = "capacity in node.status"
	viewAllocatable = "allocatable in node.status"
	viewKubelet     = "healthy units at kubelet"
)

// A witness writes down what the node says of a resource all the time.
type witness struct {
	*node
	resources []string
	stop      context.CancelFunc
	running   sync.WaitGroup
	started   time.Time

	mu     sync.Mutex
	series map[series][]value
	// answered is when kubelet answered last, gap the longest time between two
	// answers.
	answered time.Time
	gap      time.Duration
}

type series struct{ view, resource string }

// value is what a view had from a time on.
type value struct {
	at    time.Time
	units int64
}

// A dip is a time at which a view had less than at first.
type dip struct {
	series
	from, least int64
	after, took time.Duration
	// mended says that it was over at the end.
	mended bool
}

func (d dip) String() string {
	text := fmt.Sprintf("%s: %s: from %d to %d after %v, for %v", d.resource, d.view, d.from, d.least, d.after.Round(time.Millisecond), d.took.Round(time.Millisecond))
	if !d.mended {
		text += " and still so at the end"
	}
	return text
}

// watch starts a witness. When watch returns, it has seen its resources in all
// views.
func (n *node) watch(resources ...string) *witness {
	n.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &witness{node: n, resources: resources, stop: cancel, started: time.Now(), series: map[series][]value{}}
	n.Cleanup(cancel)
	w.running.Go(func() { w.watchStatus(ctx) })
	w.running.Go(func() { w.sampleKubelet(ctx) })
	n.eventually("all views of "+fmt.Sprint(resources)+" agree", w.begun)
	return w
}

// begun reports whether all was seen, and node.status has what kubelet has; what
// was seen before that does not count.
func (w *witness) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, resource := range w.resources {
		have := w.last(viewKubelet, resource)
		if have < 0 || w.last(viewAllocatable, resource) != have || w.last(viewCapacity, resource) < have {
			return false
		}
	}
	for key, values := range w.series {
		w.series[key] = values[len(values)-1:]
	}
	return true
}

// last is the newest value of a view, -1 if there is none.
func (w *witness) last(view, resource string) int64 {
	values := w.series[series{view, resource}]
	if len(values) == 0 {
		return -1
	}
	return values[len(values)-1].units
}

// wantBack waits until all views have at least what they had at first: kubelet,
// and then node.status.
func (w *witness) wantBack() {
	w.Helper()
	for _, views := range [][]string{{viewKubelet}, {viewCapacity, viewAllocatable}} {
		w.eventually(fmt.Sprintf("all is back as it was: %v of %v", views, w.resources), func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			for key, values := range w.series {
				if slices.Contains(views, key.view) && w.last(key.view, key.resource) < values[0].units {
					return false
				}
			}
			return true
		})
	}
}

// end stops the witness and returns the dips that it saw.
func (w *witness) end() []dip {
	w.Helper()
	w.stop()
	w.running.Wait()
	end := time.Now()
	var dips []dip
	for key, values := range w.series {
		dips = append(dips, dipsOf(key, values, w.started, end)...)
	}
	slices.SortFunc(dips, func(a, b dip) int { return int(a.after - b.after) })
	for _, d := range dips {
		w.Log(d)
	}
	w.Logf("kubelet was asked every %v for %v; longest time without an answer: %v", samplePeriod, end.Sub(w.started).Round(time.Millisecond), w.gap.Round(time.Millisecond))
	return dips
}

// wantNoDip ends the witness, which must not have seen any. Kubelet must have
// answered all the time, or the witness could not know.
func (w *witness) wantNoDip() {
	w.Helper()
	if dips := w.end(); len(dips) > 0 {
		w.Errorf("capacity dipped: %v", dips)
	}
	if w.gap > blindLimit {
		w.Errorf("kubelet did not answer for %v: nobody knows what it had then", w.gap)
	}
}

// wantDips ends the witness, which may have seen no dip of capacity, and of each other
// view so many as there was reason for, all of them over. It returns how long those of
// kubelet took, the shortest first.
func (w *witness) wantDips(reasons int) (took []time.Duration) {
	w.Helper()
	times := map[series]int{}
	for _, d := range w.end() {
		times[d.series]++
		if d.view == viewCapacity || !d.mended || times[d.series] > reasons {
			w.Errorf("dip %d of at most %d: %v", times[d.series], reasons, d)
		}
		if d.view == viewKubelet {
			took = append(took, d.took)
		}
	}
	slices.Sort(took)
	return took
}

func dipsOf(key series, values []value, started, end time.Time) []dip {
	var dips []dip
	var now *dip
	first := values[0].units
	var since time.Time
	for _, v := range values {
		switch {
		case now == nil && v.units < first:
			since = v.at
			now = &dip{series: key, from: first, least: v.units, after: v.at.Sub(started)}
		case now != nil && v.units < first:
			now.least = min(now.least, v.units)
		case now != nil:
			now.took, now.mended = v.at.Sub(since), true
			dips, now = append(dips, *now), nil
		}
	}
	if now != nil {
		now.took = end.Sub(since)
		dips = append(dips, *now)
	}
	return dips
}

// note writes a value down if it is another than the last.
func (w *witness) note(view, resource string, units int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := series{view, resource}
	values := w.series[key]
	if len(values) == 0 || values[len(values)-1].units != units {
		w.series[key] = append(values, value{time.Now(), units})
	}
}

func (w *witness) watchStatus(ctx context.Context) {
	_, err := until(ctx, client.CoreV1().Nodes(), fields.OneTermEqualSelector("metadata.name", nodeName), func(object *v1.Node) bool {
		for _, resource := range w.resources {
			now := countsOf(object, resource)
			w.note(viewCapacity, resource, now.capacity)
			w.note(viewAllocatable, resource, now.allocatable)
		}
		return false
	})
	if ctx.Err() == nil {
		w.Errorf("the watch of node.status ended: %v", err)
	}
}

func (w *witness) sampleKubelet(ctx context.Context) {
	tick := time.NewTicker(samplePeriod)
	defer tick.Stop()
	for ctx.Err() == nil {
		healthy, err := healthyUnits(ctx, w.kubelet)
		if err == nil {
			w.answer()
			for _, resource := range w.resources {
				w.note(viewKubelet, resource, healthy[resource])
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// answer notes that kubelet answered now.
func (w *witness) answer() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if !w.answered.IsZero() {
		w.gap = max(w.gap, now.Sub(w.answered))
	}
	w.answered = now
}

// healthyUnits asks kubelet's device manager for the number of healthy units of
// each resource.
func healthyUnits(ctx context.Context, kubelet podresources.PodResourcesListerClient) (map[string]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	answer, err := kubelet.GetAllocatableResources(ctx, &podresources.AllocatableResourcesRequest{})
	if err != nil {
		return nil, err
	}
	// A unit is listed once for each of its NUMA nodes.
	seen, units := map[series]bool{}, map[string]int64{}
	for _, d := range answer.Devices {
		for _, id := range d.DeviceIds {
			if key := (series{id, d.ResourceName}); !seen[key] {
				seen[key] = true
				units[d.ResourceName]++
			}
		}
	}
	return units, nil
}

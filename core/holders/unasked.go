package holders

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// maxLeft bounds what is remembered of units whose hold a list has ended.
const maxLeft = 1 << 16

// Unasked is a unit of a resource of ours that kubelet gave to a container without asking
// this process: another device plugin answered. It is so until the container is gone.
type Unasked struct {
	Holder
	// Since is when kubelet listed it first.
	Since time.Time
}

// Unasked are all of those, sorted. There are none before Known, and nobody is taken
// for one who had the unit before that: another process of ours may have been asked.
func (b *Book) Unasked() []Unasked {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Unasked
	for u, f := range b.unasked {
		f.Resource, f.Unit = u.resource, u.id
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b Unasked) int {
		return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Unit, b.Unit))
	})
	return all
}

// compare looks for such units in a list, before its holds are taken in. The caller
// holds b.mu. A unit that kubelet listed before, or that had a hold which a list has ended,
// is none: kubelet may just not have told of its pod for a while.
func (b *Book) compare(l listing, listed map[unit][]holder, found map[unit]*hold) {
	before := b.listed
	b.listed = listed
	for u, holders := range listed {
		_, resolved := found[u]
		ours := resolved || b.opts.Owns != nil && b.opts.Owns(u.resource)
		if b.known && ours && b.holds[u] == nil && before[u] == nil && !b.left[u] {
			h := holders[0]
			b.unasked[u] = Unasked{Holder: Holder{Namespace: h.Namespace, Pod: h.Pod, Container: h.Container}, Since: l.began}
		}
	}
	for u := range b.unasked {
		if listed[u] == nil {
			delete(b.unasked, u)
		}
	}
}

// leave remembers a unit whose hold a list has ended. The caller holds b.mu.
func (b *Book) leave(u unit) {
	if len(b.left) >= maxLeft {
		clear(b.left)
	}
	b.left[u] = true
}

// Allocatable asks kubelet which healthy units of these resources it has, by resource.
// Unlike the list of pods this is nothing that kubelet acts upon, so that it may be asked
// at any time. Kubelets from 1.23 on answer.
func (b *Book) Allocatable(ctx context.Context, of func(resource string) bool) (map[string]map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, b.opts.Timing.Timeout)
	defer cancel()
	devices, err := b.lister.allocatable(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]map[string]bool{}
	for _, d := range devices {
		name := d.GetResourceName()
		if !of(name) {
			continue
		}
		if all[name] == nil {
			all[name] = map[string]bool{}
		}
		for _, id := range d.GetDeviceIds() {
			all[name][id] = true
		}
	}
	return all, nil
}

// allocatable makes a connection, as list does.
func (p *podResources) allocatable(ctx context.Context) ([]*podresourcesv1.ContainerDevices, error) {
	conn, err := p.connect()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	response, err := podresourcesv1.NewPodResourcesListerClient(conn).GetAllocatableResources(ctx, &podresourcesv1.AllocatableResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("get allocatable resources at %s: %w", p.socket, err)
	}
	return response.GetDevices(), nil
}

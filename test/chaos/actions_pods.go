package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxPods bounds the pods: more would leave nothing to do but to free.
const maxPods = 6

func (w *world) allocate(ctx context.Context, arg int) error {
	if !w.m.kubelet {
		return errSkip
	}
	if w.rushed && w.resetPending() {
		if err := w.settle(ctx); err != nil {
			return err
		}
	}
	if len(w.pods) >= maxPods {
		if err := w.free(ctx, 0); err != nil {
			return err
		}
	}
	b, _ := pick(w.m.configured(), arg)
	resource, replicas := w.m.resourceOf(b)
	count := 1
	if replicas == 1 { // of replicas a container may have one
		count += arg / 8 % 2
	}
	// Whether it must be possible depends on what is true now, not on what comes.
	certain := !w.rushed && w.freeDevices(resource) >= count
	pod := fmt.Sprintf("pod-%d", w.next())
	limited, cancel := context.WithTimeout(ctx, w.bound)
	defer cancel()
	a, err := w.kubelet.Allocate(limited, pod, resource, count)
	if err != nil {
		if certain {
			return &violation{serves, fmt.Sprintf("%d of %s: %v", count, resource, err)}
		}
		return nil
	}
	w.pods = append(w.pods, pod)
	if err := w.take(a); err != nil {
		return err
	}
	return w.startContainer(ctx, pod, b, certain && w.canPrepare(b))
}

// resetPending reports whether a device waits for a reset, which is a matter of who is
// first if a container gets a device of the same group now.
func (w *world) resetPending() bool {
	return slices.ContainsFunc(w.m.configured(), func(b *backend) bool {
		return slices.ContainsFunc(b.devices, func(d *device) bool { return d.entry.fault == "" && d.faults[byReset] })
	})
}

// freeDevices is how many devices are surely healthy and in no container.
func (w *world) freeDevices(resource string) int {
	holds := w.holds()
	free := map[string]bool{}
	for unit, h := range w.m.expected(holds)[resource] {
		if id, _ := deviceOf(unit); h == healthy && len(holders(holds, id)) == 0 {
			free[id] = true
		}
	}
	return len(free)
}

// canPrepare reports whether nothing speaks against the start of a container. That
// epsilon is at an end with its misdeed does not mean that it prepares: it may hang, and
// nobody may have noticed yet.
func (w *world) canPrepare(b *backend) bool {
	return !b.down() && b != w.m.epsilon && !w.m.diskFull && !w.m.readOnly
}

// startContainer starts a pod's container with devices of a backend, which must be possible
// at once if that is certain. If the agent has had to replace the backend meanwhile, by
// itself, as it has when the machine does not let that run for seconds, it must be possible
// again within the bound.
func (w *world) startContainer(ctx context.Context, pod string, b *backend, certain bool) error {
	start := func() error {
		limited, cancel := context.WithTimeout(ctx, w.bound)
		defer cancel()
		return w.kubelet.StartContainer(limited, pod)
	}
	before := 0
	if certain {
		before = w.pid(ctx, b)
	}
	err := start()
	if err == nil || !certain {
		return nil
	}
	again := w.await(ctx, serves, "the container of "+pod+" does not start", func() bool { return start() == nil })
	if again == nil && w.pid(ctx, b) != before {
		return nil
	}
	return errors.Join(&violation{serves, fmt.Sprintf("the container of %s does not start: %v", pod, err)}, again)
}

func (w *world) free(_ context.Context, arg int) error {
	pod, ok := pick(w.pods, arg)
	if !ok {
		return errSkip
	}
	w.endPod(pod)
	return nil
}

// endPod ends a pod.
func (w *world) endPod(pod string) {
	holds := w.holds()
	for _, b := range w.m.configured() {
		for _, d := range b.devices {
			if !w.m.groupHeld(b, d.group, holds) {
				continue
			}
			w.watch.mending(d.id) // a reset may come now
			if d.faults[byReset] {
				// While it goes on the whole group is unhealthy.
				resource, _ := w.m.resourceOf(b)
				w.watch.spare(resource)
			}
		}
	}
	w.pods = slices.DeleteFunc(w.pods, func(p string) bool { return p == pod })
	w.kubelet.Free(pod)
}

func (w *world) restartContainer(ctx context.Context, arg int) error {
	pod, ok := pick(w.pods, arg)
	if !ok || !w.m.kubelet {
		return errSkip
	}
	certain := !w.rushed
	var of *backend
	holds := w.holds()
	for _, h := range holds {
		if h.Pod != pod {
			continue
		}
		wanted, configured := w.m.expected(holds)[h.Resource][h.Unit]
		certain = certain && configured && wanted == healthy
		for _, b := range w.m.configured() {
			if resource, _ := w.m.resourceOf(b); resource == h.Resource {
				of = b
				certain = certain && w.canPrepare(b)
			}
		}
	}
	return w.startContainer(ctx, pod, of, certain && of != nil)
}

// pause lets an amount of time pass that is part of what happens, such as that of a
// process that is stopped.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

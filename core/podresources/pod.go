package podresources

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/accelmux/accelmux/core/backoff"
)

// Pod is a pod that has units of a resource, as kubelet lists it.
type Pod struct {
	Namespace, Name string
	// Units are the units of the resource by container, sorted. Kubelet does not list
	// ordinary init containers.
	Units map[string][]string
}

// Find asks kubelet for the pod with these units of the resource, which kubelet has given
// to one container. It does not rely on earlier lists. When kubelet has just started, Find
// waits until its pods may be listed (see Timing.Quiet) or ctx ends. Run need not run. The
// errors are shown to users as they are. listed is the pod that had the units before, if that is known: it is asked for first.
func (k *Kubelet) Find(ctx context.Context, resource string, units []string, listed Container) (Pod, error) {
	if pod, ok := k.confirm(ctx, resource, units, listed); ok {
		return pod, nil
	}
	var starting *startingError
	l, err := k.fresh(ctx)
	for errors.As(err, &starting) {
		k.log.Info("waiting for kubelet to finish its start before listing pods",
			"resource", resource, "left", starting.left.Round(time.Millisecond))
		if !backoff.Sleep(ctx, starting.left) {
			break
		}
		l, err = k.fresh(ctx)
	}
	if err != nil {
		return Pod{}, fmt.Errorf("cannot find the pod that has %s: %w", strings.Join(units, ", "), err)
	}
	var found []Pod
	for _, listed := range l.Pods {
		if pod := podWith(listed, resource); pod.has(units) {
			found = append(found, pod)
		}
	}
	switch len(found) {
	case 0:
		return Pod{}, fmt.Errorf("kubelet lists no pod that has %s. Kubelet does not list ordinary init containers; such a pod is found only if a listed container of it has the same devices",
			strings.Join(units, ", "))
	case 1:
		return found[0], nil
	}
	return Pod{}, fmt.Errorf("kubelet lists several pods that have %s: %s/%s and %s/%s", strings.Join(units, ", "),
		found[0].Namespace, found[0].Name, found[1].Namespace, found[1].Name)
}

// confirm asks for the one pod that had the units before, which is cheaper, and possible
// at any time.
func (k *Kubelet) confirm(ctx context.Context, resource string, units []string, before Container) (Pod, bool) {
	if before.Pod == "" {
		return Pod{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, k.opts.Timing.Timeout)
	defer cancel()
	listed, err := k.lister.Get(ctx, before.Namespace, before.Pod)
	if err != nil {
		k.log.Debug("get pod resources", "namespace", before.Namespace, "pod", before.Pod, "error", err)
		return Pod{}, false
	}
	pod := podWith(listed, resource)
	return pod, pod.Namespace == before.Namespace && pod.Name == before.Pod && pod.has(units)
}

// podWith returns what a listed pod has of a resource. Kubelet has an entry for each NUMA
// node of a device, so one may be listed several times.
func podWith(listed *podresourcesv1.PodResources, resource string) Pod {
	pod := Pod{Namespace: listed.GetNamespace(), Name: listed.GetName(), Units: map[string][]string{}}
	for _, listed := range listed.GetContainers() {
		var units []string
		for _, devices := range listed.GetDevices() {
			if devices.GetResourceName() == resource {
				units = append(units, devices.GetDeviceIds()...)
			}
		}
		if len(units) > 0 {
			slices.Sort(units)
			pod.Units[listed.GetName()] = slices.Compact(units)
		}
	}
	return pod
}

// has reports whether a container of the pod has one of the units.
func (p Pod) has(units []string) bool {
	for _, has := range p.Units {
		if slices.ContainsFunc(units, func(id string) bool { return slices.Contains(has, id) }) {
			return true
		}
	}
	return false
}

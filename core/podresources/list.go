package podresources

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// emptyFactor is how much longer kubelet must have been up before a list without any pod
// may end an owner: right after its start kubelet lists no pods.
const emptyFactor = 10

// List is a list of kubelet's pods, and when it was made.
type List struct {
	// Began is before the call.
	Began time.Time
	// KubeletUp is how long kubelet had been serving its socket at that time.
	KubeletUp time.Duration
	Pods      []*podresourcesv1.PodResources
	timing    Timing
}

// Container is a container that kubelet lists.
type Container struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Name      string `json:"container"`
}

// Compare sorts containers.
func (c Container) Compare(o Container) int {
	return cmp.Or(strings.Compare(c.Namespace, o.Namespace), strings.Compare(c.Pod, o.Pod), strings.Compare(c.Name, o.Name))
}

// Unit names a unit of a resource: its ID is unique in it.
type Unit struct{ Resource, ID string }

// Claim names a claim in a list.
type Claim struct{ Namespace, Name string }

// Conclusive reports whether the list may end owners.
func (l List) Conclusive() bool {
	settle := l.timing.Settle
	if len(l.Pods) == 0 {
		settle *= emptyFactor
	}
	return l.KubeletUp >= settle
}

// containers calls yield with each container.
func (l List) containers(yield func(Container, *podresourcesv1.ContainerResources) bool) {
	for _, pod := range l.Pods {
		for _, container := range pod.GetContainers() {
			if !yield(Container{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Name: container.GetName()}, container) {
				return
			}
		}
	}
}

// Units returns the listed units with their containers, sorted. Kubelet has an entry for each NUMA
// node of a device, so one may be listed several times.
func (l List) Units() map[Unit][]Container {
	units := map[Unit][]Container{}
	for c, container := range l.containers {
		for _, devices := range container.GetDevices() {
			for _, id := range devices.GetDeviceIds() {
				add(units, Unit{devices.GetResourceName(), id}, c)
			}
		}
	}
	return units
}

// Claims returns the listed claims with their containers, sorted.
func (l List) Claims() map[Claim][]Container {
	claims := map[Claim][]Container{}
	for c, container := range l.containers {
		for _, claim := range container.GetDynamicResources() {
			add(claims, Claim{claim.GetClaimNamespace(), claim.GetClaimName()}, c)
		}
	}
	return claims
}

// add adds a container to those of an owner, unless it is there.
func add[O comparable](all map[O][]Container, owner O, c Container) {
	if i, there := slices.BinarySearchFunc(all[owner], c, Container.Compare); !there {
		all[owner] = slices.Insert(all[owner], i, c)
	}
}

// CDINames are the CDI names of the listed claims; a name may come several times.
func (l List) CDINames(yield func(Claim, string) bool) {
	for _, container := range l.containers {
		for _, claim := range container.GetDynamicResources() {
			for _, resource := range claim.GetClaimResources() {
				for _, device := range resource.GetCdiDevices() {
					if !yield(Claim{claim.GetClaimNamespace(), claim.GetClaimName()}, device.GetName()) {
						return
					}
				}
			}
		}
	}
}

// ListedCDI asks kubelet for the CDI names of the claims that its pods have. The error is for a
// kubelet that does not answer, or that started so recently that it may not know its pods yet. Kubelet
// does not list ordinary init containers, nor pods that were deleted by force, though their containers
// may run.
func (k *Kubelet) ListedCDI(ctx context.Context) (map[string]bool, error) {
	l, err := k.fresh(ctx)
	if err != nil {
		return nil, err
	}
	if !l.Conclusive() {
		return nil, errors.New("kubelet has just started, and may not know its pods yet")
	}
	names := map[string]bool{}
	for _, name := range l.CDINames {
		names[name] = true
	}
	return names, nil
}

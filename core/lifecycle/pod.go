package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/accelmux/accelmux/core/kubeapi"
	"github.com/accelmux/accelmux/core/podresources"
)

// Kubelet does not name the container that it starts, so its pod is found by its units.
// Kubelet gives a container's preparation 30 s. Finding the pod may take searchLimit, which is
// longer than podresources.Timing.Quiet. Reading it may take readLimit. The backend gets what is
// left, and never more than 25 s (supervisor.Timing.Prepare).
const (
	searchLimit = 15 * time.Second
	readLimit   = 5 * time.Second
)

// findPod returns the pod of the container that has the units, as kubelet and as the API
// server have it.
func (l *Lifecycle) findPod(ctx context.Context, name string, units []string) (podresources.Pod, *corev1.Pod, error) {
	if l.opts.Pods == nil {
		return podresources.Pod{}, nil, errors.New("the configuration takes them from the pod, but no API server is configured: " +
			"run the agent in a pod with a service account, or give it --kubeconfig")
	}
	search, cancel := context.WithTimeout(ctx, searchLimit)
	defer cancel()
	found, err := l.opts.Book.Find(search, name, units)
	if err != nil {
		return podresources.Pod{}, nil, err
	}
	read, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	pod, err := l.opts.Pods(read, found.Namespace, found.Name)
	return found, pod, l.checkPod(found, pod, err)
}

// checkPod returns an error unless this is the pod that kubelet listed. It compares the names,
// because kubelet does not list the UID.
func (l *Lifecycle) checkPod(found podresources.Pod, pod *corev1.Pod, err error) error {
	at := found.Namespace + "/" + found.Name
	if text, ok := kubeapi.Forbidden(err, "get", "pods", ""); ok {
		return fmt.Errorf("read pod %s: %s; the chart gives the right where its configuration needs it", at, text)
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the API server has no pod %s, for which kubelet lists the devices: it was deleted, or it is a static pod", at)
	case err != nil:
		return fmt.Errorf("read pod %s: %w; the start is tried again", at, err)
	case pod.Namespace != found.Namespace || pod.Name != found.Name || pod.UID == "":
		return fmt.Errorf("the API server answered with another pod than %s", at)
	case l.opts.NodeName != "" && pod.Spec.NodeName != l.opts.NodeName:
		return fmt.Errorf("for the API server pod %s is on node %q, not on this one, %q: it was replaced, or the agent's --node-name is wrong",
			at, pod.Spec.NodeName, l.opts.NodeName)
	}
	return nil
}

// containersOf returns the containers of the pod that may have the units. Kubelet lists
// the units of all but ordinary init containers. An ordinary init container is a candidate if
// its limit equals the number of units. If no container matches exactly, one with more units
// is a candidate: units may lack those of removed devices that need no preparation.
func containersOf(pod *corev1.Pod, found podresources.Pod, name string, units []string) []corev1.Container {
	all := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	listed := func(fits func(has []string) bool) []corev1.Container {
		var candidates []corev1.Container
		for _, c := range all {
			if has, ok := found.Units[c.Name]; ok && fits(has) {
				candidates = append(candidates, c)
			}
		}
		return candidates
	}
	wanted := slices.Sorted(slices.Values(units))
	candidates := listed(func(has []string) bool { return slices.Equal(has, wanted) })
	for _, c := range pod.Spec.InitContainers {
		limit := c.Resources.Limits[corev1.ResourceName(name)]
		if c.RestartPolicy == nil && limit.Value() == int64(len(units)) {
			candidates = append(candidates, c)
		}
	}
	if len(candidates) > 0 {
		return candidates
	}
	return listed(func(has []string) bool {
		return !slices.ContainsFunc(wanted, func(id string) bool { return !slices.Contains(has, id) })
	})
}

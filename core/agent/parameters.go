package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/kubeapi"
)

// Of the 30 s that kubelet gives to a container's preparation, finding its pod may
// take searchLimit, which is more than a kubelet that has just started is left alone,
// and reading the pod readLimit: the rest is the backend's, whose own limit is 25 s.
const (
	searchLimit = 15 * time.Second
	readLimit   = 5 * time.Second
)

// parameters are what the container that was given these units of the resource asks
// of them, by the resource's configuration. Kubelet does not say which container it
// starts; only where a parameter may come from the pod, that is looked for.
func (a *Agent) parameters(ctx context.Context, name string, units []string) (map[string]string, error) {
	r := a.view.Load().Resource(name)
	if r == nil || len(r.Parameters) == 0 {
		return nil, nil // that it is no longer configured is told of later
	}
	fromPod := config.Parameter.FromPod
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.Parameters)), fromPod) {
		return valuesOf(r.Parameters, nil, corev1.Container{})
	}
	found, pod, err := a.findPod(ctx, name, units)
	if err != nil {
		return nil, err
	}
	candidates := containersOf(pod, found, name, units)
	if len(candidates) == 0 {
		return nil, fmt.Errorf("no container of pod %s/%s has %s of %s: the pod was perhaps replaced, then its next start goes well",
			found.Namespace, found.Name, strings.Join(units, ", "), name)
	}
	parameters, err := valuesOf(r.Parameters, pod.Annotations, candidates[0])
	for _, other := range candidates[1:] {
		if err != nil {
			break
		}
		var others map[string]string
		if others, err = valuesOf(r.Parameters, pod.Annotations, other); err == nil && !maps.Equal(parameters, others) {
			err = fmt.Errorf("the containers %s and %s may both have %s, and ask for different things: give both the same values",
				candidates[0].Name, other.Name, strings.Join(units, ", "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", found.Namespace, found.Name, err)
	}
	return parameters, nil
}

// findPod is the pod that kubelet gave the units to.
func (a *Agent) findPod(ctx context.Context, name string, units []string) (holders.Pod, *corev1.Pod, error) {
	if a.opts.Pods == nil {
		return holders.Pod{}, nil, errors.New("the configuration takes them from the pod, but no API server is configured: " +
			"run the agent in a pod with a service account, or give it --kubeconfig")
	}
	search, cancel := context.WithTimeout(ctx, searchLimit)
	defer cancel()
	found, err := a.book.Find(search, name, units)
	if err != nil {
		return holders.Pod{}, nil, err
	}
	read, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	pod, err := a.opts.Pods(read, found.Namespace, found.Name)
	return found, pod, a.checkPod(found, pod, err)
}

// checkPod wants the Pod that kubelet means, as far as its names tell: kubelet does
// not say the UID. The error is a sentence.
func (a *Agent) checkPod(found holders.Pod, pod *corev1.Pod, err error) error {
	at := found.Namespace + "/" + found.Name
	if text, ok := kubeapi.Forbidden(err, "get", "pods", ""); ok {
		return fmt.Errorf("read pod %s: %s; the chart gives the right where its configuration needs it", at, text)
	}
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the API server knows no pod %s, of which kubelet says that it has the devices: it was deleted, or kubelet has it from a file", at)
	case err != nil:
		return fmt.Errorf("read pod %s: %w; the start is tried again", at, err)
	case pod.Namespace != found.Namespace || pod.Name != found.Name || pod.UID == "":
		return fmt.Errorf("the API server answered with another pod than %s", at)
	case a.opts.NodeName != "" && pod.Spec.NodeName != a.opts.NodeName:
		return fmt.Errorf("pod %s is on node %q for the API server, which is not this one, %q: it was replaced, or the agent's --node-name is wrong",
			at, pod.Spec.NodeName, a.opts.NodeName)
	}
	return nil
}

// containersOf are those of the pod's containers that may be the one: kubelet says
// what the containers that stay have, and an ordinary init container, of which it
// does not, may have the same units before them, if it asks for as many. Units whose
// device is gone and needs no preparation are not among those that are looked for, so
// one that has more may be it if none has the same.
func containersOf(pod *corev1.Pod, found holders.Pod, name string, units []string) []corev1.Container {
	all := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	listed := func(fits func(has []string) bool) []corev1.Container {
		var candidates []corev1.Container
		for _, c := range all {
			if slices.ContainsFunc(found.Containers, func(l holders.Container) bool { return l.Name == c.Name && fits(l.Units) }) {
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

// valuesOf are the values that a container of a pod with these annotations asks for.
func valuesOf(parameters map[string]config.Parameter, annotations map[string]string, c corev1.Container) (map[string]string, error) {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		value, from, err := source(parameters[name], annotations, c)
		if err == nil {
			err = config.CheckParameterValue(value)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s, from %s: %w", name, from, err)
		}
		if value != "" {
			values[name] = value
		}
	}
	return values, nil
}

// source is the first value that there is, and where it is from. One that is there
// but empty counts too: so a pod goes without what the configuration says.
func source(p config.Parameter, annotations map[string]string, c corev1.Container) (value, from string, err error) {
	if p.Env != "" {
		// Of several the last counts, as it does for kubelet.
		for _, v := range slices.Backward(c.Env) {
			if v.Name == p.Env {
				value, err = literal(v)
				return value, fmt.Sprintf("the variable %s of container %s", p.Env, c.Name), err
			}
		}
	}
	if p.Annotation != "" {
		for _, key := range []string{p.Annotation + "." + c.Name, p.Annotation} {
			if value, ok := annotations[key]; ok {
				return value, "the annotation " + key, nil
			}
		}
	}
	return p.Value, "the configuration", nil
}

// literal is the value of a variable if the pod itself has it.
func literal(v corev1.EnvVar) (string, error) {
	switch {
	case v.ValueFrom != nil:
		return "", errors.New("it has valueFrom, and what that stands for is not known here: write the value itself, or use the annotation")
	case strings.Contains(v.Value, "$("):
		return "", fmt.Errorf("%q refers to another variable, whose value is not known here: write the value itself, or use the annotation", v.Value)
	}
	return v.Value, nil
}

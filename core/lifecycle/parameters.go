package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/accelmux/accelmux/core/config"
)

// parameters returns the values that the container with these units gives to the
// resource's parameters, from the sources that the configuration names. The pod is read only
// if it may be the source of one.
func (l *Lifecycle) parameters(ctx context.Context, request Request) (map[string]string, error) {
	r := l.opts.Round().Resource(request.Resource)
	if r == nil || len(r.Parameters) == 0 {
		return nil, nil // if it is no longer configured, define refuses
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.Parameters)), config.Parameter.FromPod) {
		return valuesOf(r.Parameters, nil, corev1.Container{})
	}
	units := request.ids()
	found, pod, err := l.findPod(ctx, request.Resource, units)
	if err != nil {
		return nil, err
	}
	candidates := containersOf(pod, found, request.Resource, units)
	if len(candidates) == 0 {
		return nil, fmt.Errorf("no container of pod %s/%s has %s of %s: if the pod was replaced, the next start succeeds",
			found.Namespace, found.Name, strings.Join(units, ", "), request.Resource)
	}
	parameters, err := valuesOf(r.Parameters, pod.Annotations, candidates[0])
	for _, other := range candidates[1:] {
		if err != nil {
			break
		}
		var others map[string]string
		if others, err = valuesOf(r.Parameters, pod.Annotations, other); err == nil && !maps.Equal(parameters, others) {
			err = fmt.Errorf("the containers %s and %s may both have %s, and give different values: give both the same values",
				candidates[0].Name, other.Name, strings.Join(units, ", "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", found.Namespace, found.Name, err)
	}
	return parameters, nil
}

// valuesOf returns the values that a container of a pod with these annotations gives.
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

// source returns the first value that is set, and where it is from. An empty value counts,
// so that a pod can do without the one in the configuration.
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

// literal returns the value of a variable if the pod itself has it.
func literal(v corev1.EnvVar) (string, error) {
	switch {
	case v.ValueFrom != nil:
		return "", errors.New("it has valueFrom, which the agent does not resolve: write the value itself, or use the annotation")
	case strings.Contains(v.Value, "$("):
		return "", fmt.Errorf("%q refers to another variable, which the agent does not resolve: write the value itself, or use the annotation", v.Value)
	}
	return v.Value, nil
}

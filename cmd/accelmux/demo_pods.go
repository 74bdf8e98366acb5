package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/config"
)

// newPod makes a pod with values for parameters of the resource, each PARAMETER=VALUE, in the
// variables and annotations that the configuration names for them.
func (s *session) newPod(name, resource string, values []string) (*corev1.Pod, error) {
	pod, main := &corev1.Pod{}, corev1.Container{Name: demoContainer}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(name)
	pod.Annotations = map[string]string{}
	pod.Spec.NodeName = hostname()
	for _, text := range values {
		parameter, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not PARAMETER=VALUE", text)
		}
		p, err := s.parameter(resource, parameter)
		switch {
		case err != nil:
			return nil, err
		case p.Env != "":
			main.Env = append(main.Env, corev1.EnvVar{Name: p.Env, Value: value})
		case p.Annotation != "":
			pod.Annotations[p.Annotation] = value
		default:
			return nil, fmt.Errorf("a pod cannot set the parameter %s of %s: set its env or annotation in the configuration", parameter, resource)
		}
	}
	pod.Spec.Containers = []corev1.Container{main}
	return pod, nil
}

// parameter returns a parameter from the configuration file as it is now. The resource's name
// in the file may have placeholders.
func (s *session) parameter(resource, name string) (config.Parameter, error) {
	profile, err := s.profile()
	if err != nil {
		return config.Parameter{}, err
	}
	i := slices.IndexFunc(profile.Resources, func(r config.Resource) bool {
		before, _, placeholders := strings.Cut(r.Name, "{")
		if !placeholders {
			return r.Name == resource
		}
		return strings.HasPrefix(resource, before) && strings.HasSuffix(resource, r.Name[strings.LastIndex(r.Name, "}")+1:])
	})
	if i < 0 {
		return config.Parameter{}, fmt.Errorf("the configuration file no longer has the resource %s", resource)
	}
	all := profile.Resources[i].Parameters
	p, ok := all[name]
	if !ok {
		return p, fmt.Errorf("resource %s has no parameter %q in the configuration file; it has: %s", resource, name, list(slices.Sorted(maps.Keys(all))))
	}
	return p, nil
}

// profile returns the profile in force from the configuration file as it is now.
func (s *session) profile() (*config.Profile, error) {
	file, err := config.Load(s.config)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return file.Profile(s.agent.Report().Config.Profile)
}

// pod is the agent's Options.Pods: it returns a Pod of the demo.
func (s *session) pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.pods[name]
	if pod == nil || namespace != pod.Namespace {
		return nil, fmt.Errorf("the demo has no pod %s/%s", namespace, name)
	}
	return pod, nil
}

// released is the agent's Options.Released: it records the result of a release.
func (s *session) released(backend, device string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.releases[backend+"/"+device] = err
}

// checkPod returns an error if the pod holds no devices.
func (s *session) checkPod(name string) error {
	if pods := s.kubelet.State().Pods; !slices.Contains(pods, name) {
		return fmt.Errorf("no pod %s holds devices; the pods that do are: %s", name, list(pods))
	}
	return nil
}

// list joins names for an error message.
func list(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

func (s *session) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, name)
}

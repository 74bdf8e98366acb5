package lifecycle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/accelmux/accelmux/core/podresources"
)

// Verifies which containers of a pod may be the one that kubelet starts, by what kubelet
// says and what the pod asks for.
func TestContainersOf(t *testing.T) {
	const gpu = "example.com/gpu"
	asks := func(name, policy, amount string) corev1.Container {
		c := corev1.Container{Name: name}
		if policy != "" {
			c.RestartPolicy = new(corev1.ContainerRestartPolicy(policy))
		}
		if amount != "" {
			c.Resources.Limits = corev1.ResourceList{gpu: resource.MustParse(amount)}
		}
		return c
	}
	for name, c := range map[string]struct {
		containers, inits []corev1.Container
		listed            map[string][]string
		units, want       []string
	}{
		"the one": {
			containers: []corev1.Container{asks("a", "", "2"), asks("b", "", "1"), asks("c", "", "")},
			listed:     map[string][]string{"a": {"x", "y"}, "b": {"z"}},
			units:      []string{"y", "x"}, want: []string{"a"},
		},
		"or an init container before it": {
			containers: []corev1.Container{asks("a", "", "1")}, inits: []corev1.Container{asks("i", "", "1"), asks("j", "", "2"), asks("k", "", "")},
			listed: map[string][]string{"a": {"x"}},
			units:  []string{"x"}, want: []string{"a", "i"},
		},
		"an init container with less": {
			containers: []corev1.Container{asks("a", "", "2")}, inits: []corev1.Container{asks("i", "", "1")},
			listed: map[string][]string{"a": {"x", "y"}},
			units:  []string{"x"}, want: []string{"i"},
		},
		"a sidecar, which kubelet lists": {
			containers: []corev1.Container{asks("a", "", "1")}, inits: []corev1.Container{asks("s", "Always", "1")},
			listed: map[string][]string{"s": {"x"}, "a": {"y"}},
			units:  []string{"x"}, want: []string{"s"},
		},
		"one of whose units some are gone": {
			containers: []corev1.Container{asks("a", "", "2")},
			listed:     map[string][]string{"a": {"gone", "x"}},
			units:      []string{"x"}, want: []string{"a"},
		},
		"none: the pod is another by now": {
			containers: []corev1.Container{asks("b", "", "2")},
			listed:     map[string][]string{"a": {"x"}},
			units:      []string{"x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Spec.Containers, pod.Spec.InitContainers = c.containers, c.inits
			var got []string
			for _, container := range containersOf(pod, podresources.Pod{Units: c.listed}, gpu, c.units) {
				got = append(got, container.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}

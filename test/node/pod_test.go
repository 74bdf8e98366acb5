package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// pods are those of the tests.
const pods = metav1.NamespaceDefault

// newPod has one container, main, which sleeps and asks for amount of a resource.
func newPod(name, of string, amount int64) *v1.Pod {
	none := int64(0)
	limits := v1.ResourceList{}
	if amount > 0 {
		limits[v1.ResourceName(of)] = *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: &none,
			Containers: []v1.Container{{
				Name: "main", Image: "localhost/busybox:test", Command: []string{"sleep", "2147483647"},
				Resources: v1.ResourceRequirements{Limits: limits},
			}},
		},
	}
}

func (n *node) create(pod *v1.Pod) {
	n.Helper()
	if _, err := client.CoreV1().Pods(pods).Create(n.soon(), pod, metav1.CreateOptions{}); err != nil {
		n.Fatalf("create the pod %s: %v", pod.Name, err)
	}
}

// start creates a pod and waits until it is ready.
func (n *node) start(name, of string, amount int64) *v1.Pod {
	n.Helper()
	n.create(newPod(name, of, amount))
	return n.wantReady(name)
}

// untilPod waits until a pod is as it should be; what names that.
func (n *node) untilPod(name, what string, condition func(*v1.Pod) bool) *v1.Pod {
	n.Helper()
	var last *v1.Pod
	pod, err := until(n.soon(), client.CoreV1().Pods(pods), fields.OneTermEqualSelector("metadata.name", name),
		func(pod *v1.Pod) bool {
			last = pod
			return condition(pod)
		})
	if err != nil {
		text := "it was never seen"
		if last != nil {
			text = fmt.Sprintf("its status is %+v", last.Status)
		}
		n.Fatalf("pod %s: not %s: %v; %s", name, what, err, text)
	}
	return pod
}

func (n *node) wantReady(name string) *v1.Pod {
	n.Helper()
	return n.untilPod(name, "ready", ready)
}

func ready(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

// delete deletes a pod of the tests and waits until it has gone.
func (n *node) delete(name string) {
	n.Helper()
	n.deletePod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pods, Name: name}})
}

// deletePod deletes a pod and waits until it has gone.
func (n *node) deletePod(pod *v1.Pod) {
	n.Helper()
	if err := client.CoreV1().Pods(pod.Namespace).Delete(n.soon(), pod.Name, metav1.DeleteOptions{}); err != nil {
		n.Fatalf("delete the pod %s: %v", pod.Name, err)
	}
	n.eventually("the pod "+pod.Name+" is gone", func() bool {
		list, err := client.CoreV1().Pods(pod.Namespace).List(context.Background(), metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", pod.Name).String(),
		})
		return err == nil && len(list.Items) == 0
	})
}

// deletePods deletes all pods of the tests, and their claims.
func (n *node) deletePods() {
	n.Helper()
	err := client.CoreV1().Pods(pods).DeleteCollection(n.soon(), metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		n.Fatalf("delete the pods: %v", err)
	}
	n.eventually("the pods are gone", func() bool {
		list, err := client.CoreV1().Pods(pods).List(context.Background(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	claims := client.ResourceV1().ResourceClaims(pods)
	if err := claims.DeleteCollection(n.soon(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		n.Fatalf("delete the claims: %v", err)
	}
	n.eventually("the claims are gone", func() bool {
		list, err := claims.List(context.Background(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
}

// exec runs a command in a pod's container and returns what it printed.
func (n *node) exec(pod string, command ...string) string {
	n.Helper()
	return n.must("kubectl", append([]string{"exec", "--namespace=" + pods, pod, "--"}, command...)...)
}

// inside is what the pod's container sees of its mock devices: the variables and
// the device nodes.
type inside struct{ env, nodes []string }

func (n *node) inside(pod string) inside {
	n.Helper()
	var sees inside
	for _, line := range strings.Split(n.exec(pod, "sh", "-c", "env; for d in /dev/accelmux-mock/*; do [ -c $d ] && echo node $d; done; true"), "\n") {
		if name, value, _ := strings.Cut(line, "="); strings.HasPrefix(name, "ACCELMUX_MOCK_") {
			sees.env = append(sees.env, value)
		}
		if path, ok := strings.CutPrefix(line, "node /dev/accelmux-mock/"); ok {
			sees.nodes = append(sees.nodes, path)
		}
	}
	slices.Sort(sees.env)
	slices.Sort(sees.nodes)
	return sees
}

// wantUntouched checks that the containers of a pod were not restarted since.
func (n *node) wantUntouched(before *v1.Pod) {
	n.Helper()
	now, err := client.CoreV1().Pods(before.Namespace).Get(n.soon(), before.Name, metav1.GetOptions{})
	if err != nil {
		n.Error(err)
		return
	}
	if was, is := containers(before), containers(now); now.UID != before.UID || !maps.Equal(was, is) {
		n.Errorf("pod %s was touched: its containers were %v and are %v", before.Name, was, is)
	}
}

// restartContainer kills the process of a pod's container and waits until kubelet
// has started the container again.
func (n *node) restartContainer(name string) *v1.Pod {
	n.Helper()
	before := n.wantReady(name).Status.ContainerStatuses[0]
	_, id, _ := strings.Cut(before.ContainerID, "://")
	n.must("ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", id)
	return n.untilPod(name, "restarted", func(pod *v1.Pod) bool {
		now := pod.Status.ContainerStatuses
		return len(now) == 1 && now[0].RestartCount > before.RestartCount && ready(pod)
	})
}

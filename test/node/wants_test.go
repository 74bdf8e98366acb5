package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/status"
)

// wantInSlices waits until the mock's slices have exactly these devices.
func (n *node) wantInSlices(names ...string) {
	n.Helper()
	var last []string
	defer func() {
		if n.Failed() {
			n.Logf("published: %v", last)
		}
	}()
	n.eventually(fmt.Sprintf("the slices have %v", names), func() bool {
		published, err := publishedDevices(context.Background())
		last = slices.Sorted(maps.Keys(published))
		return err == nil && slices.Equal(last, names)
	})
}

// wantServing waits until an agent serves, after that one was killed.
func (n *node) wantServing() {
	n.Helper()
	n.wantReport("an agent serves", func(r status.Report) bool { return len(r.NotReady) == 0 })
}

// wantProblem waits until the status has a problem with all of these texts.
func (n *node) wantProblem(texts ...string) {
	n.Helper()
	n.wantReport(fmt.Sprintf("the status has a problem with %q", texts), func(r status.Report) bool {
		return slices.ContainsFunc(r.Problems, func(p status.Problem) bool {
			return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(p.Message, text) })
		})
	})
}

// wantByClaim waits until a pod is ready that asked for an extended resource, and checks that it is
// served by dynamic resource allocation.
func (n *node) wantByClaim(name string) *v1.Pod {
	n.Helper()
	pod := n.wantReady(name)
	if pod.Status.ExtendedResourceClaimStatus == nil {
		n.Fatalf("pod %s has no claim for %s: it was served by the device plugin API", name, gpu)
	}
	return pod
}

// wantOneHolderEach checks that each of these pods, all that run, sees devices in its container that
// no other one does.
func (n *node) wantOneHolderEach(names ...string) {
	n.Helper()
	holder := map[string]string{}
	for _, name := range names {
		sees := n.inside(name)
		if len(sees.nodes) == 0 || !slices.Equal(sees.env, sees.nodes) {
			n.Errorf("the container of pod %s sees %+v", name, sees)
		}
		for _, id := range sees.nodes {
			if other := holder[id]; other != "" {
				n.Errorf("the pods %s and %s both have %s", other, name, id)
			}
			holder[id] = name
		}
	}
}

// remove deletes a pod and does not wait until it has gone.
func (n *node) remove(name string) {
	n.Helper()
	if err := client.CoreV1().Pods(pods).Delete(n.soon(), name, metav1.DeleteOptions{}); err != nil {
		n.Fatalf("delete the pod %s: %v", name, err)
	}
}

func (n *node) wantGone(name string) {
	n.Helper()
	n.eventually("the pod "+name+" is gone", func() bool {
		list, err := client.CoreV1().Pods(pods).List(context.Background(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		return err == nil && len(list.Items) == 0
	})
}

// wantEnded waits until a container, by its ID in the status of its pod, does not run any more.
func (n *node) wantEnded(container string) {
	n.Helper()
	_, id, _ := strings.Cut(container, "://")
	n.eventually("the container has ended", func() bool {
		return !strings.Contains(n.must("ctr", "--namespace=k8s.io", "tasks", "ls", "--quiet"), id)
	})
}

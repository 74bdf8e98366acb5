package node

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/status"
)

// Verifies that claims outlive restarts of the agent and of kubelet: their pods are left alone, a
// restart of their containers finds the devices, and a new pod gets others.
func TestClaimsOutliveRestarts(t *testing.T) {
	n := begin(t)
	n.installClaims()
	pod := n.startClaiming("one", 2)
	held := n.wantClaimed("one")
	for _, restart := range []struct {
		name string
		do   func()
	}{
		{"agent killed", func() { n.kill("accelmux") }},
		{"agent deleted", func() { n.deletePod(n.agentPod()) }},
		{"kubelet stopped", func() { n.restartKubelet("stop") }},
		{"kubelet killed", func() { n.restartKubelet("kill") }},
	} {
		t.Run(restart.name, func(t *testing.T) {
			n := n.with(t)
			restart.do()
			name := strings.ReplaceAll(restart.name, " ", "-")
			n.startClaiming(name, 6)
			if got := n.wantClaimed(name); len(got) != 6 || slices.ContainsFunc(got, func(id string) bool { return slices.Contains(held, id) }) {
				t.Errorf("pod one has %v, and the new pod got %v", held, got)
			}
			n.delete(name)
		})
	}
	n.wantUntouched(pod)
	n.restartContainer("one")
	if now := n.wantClaimed("one"); !slices.Equal(now, held) {
		t.Errorf("after the restart of its container the pod has %v, and had %v", now, held)
	}
	n.delete("one")
	n.wantNoRecord()
}

// Verifies that the slices, which kubelet deletes when it starts, are soon published again: with
// kubeletplugin alone they are back after 30 s.
func TestSlicesAreSoonBackAfterKubeletsRestart(t *testing.T) {
	const restarts, limit = 4, 2 * time.Second
	n := begin(t)
	n.installClaims()
	fastest := patience
	for range restarts {
		before := n.sliceNames()
		var gone time.Time
		n.service("stop", "kubelet")
		n.service("start", "kubelet")
		n.eventually("kubelet deletes the slices", func() bool {
			gone = time.Now()
			return !slices.Equal(n.sliceNames(), before)
		})
		n.wantPublished(8)
		took := time.Since(gone)
		t.Logf("the slices were back %v after kubelet had deleted them", took)
		fastest = min(fastest, took)
		n.waitKubelet()
	}
	if fastest > limit {
		t.Errorf("the slices were back after %v at the fastest", fastest)
	}
}

// sliceNames are the names of the driver's slices.
func (n *node) sliceNames() (names []string) {
	n.Helper()
	list, err := client.ResourceV1().ResourceSlices().List(n.soon(), metav1.ListOptions{})
	if err != nil {
		n.Fatal(err)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

// Verifies that after a reboot, which takes the CDI specs away, the pods of before get the devices
// of their claims, prepared again.
func TestSpecsOfClaimsAreBackAfterAReboot(t *testing.T) {
	n := begin(t)
	n.bootID("11111111-1111-4111-8111-111111111111")
	n.installClaims()
	n.readProcFrom(playDir)
	n.wantReport("the agent is ready", func(r status.Report) bool { return len(r.NotReady) == 0 })
	n.startClaiming("one", 2)
	held := n.wantClaimed("one")

	n.reboot()
	n.untilPod("one", "running again", func(pod *v1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].RestartCount > 0 && ready(pod)
	})
	if now := n.wantClaimed("one"); !slices.Equal(now, held) {
		t.Errorf("after the reboot the pod has %v, and had %v", now, held)
	}
	n.delete("one")
	n.wantNoRecord()
}

// Verifies that a device is not given to another container while that of a pod that was deleted
// by force still runs.
func TestDeviceOfAForceDeletedPodIsNotGivenOutTwice(t *testing.T) {
	n := begin(t)
	n.installClaims()
	for _, name := range []string{"old", "new"} {
		n.claim(newClaim(name, 8, ""))
	}
	n.create(exclusive("old"))
	old := n.wantReady("old")

	n.service("stop", "kubelet") // it does not hear of the end of the pod
	none := int64(0)
	if err := client.CoreV1().Pods(pods).Delete(n.soon(), "old", metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		t.Fatal(err)
	}
	n.create(exclusive("new")) // gets the devices when the claim of old is no longer reserved
	if err := client.ResourceV1().ResourceClaims(pods).Delete(n.soon(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.untilPod("new", "scheduled", func(pod *v1.Pod) bool { return pod.Spec.NodeName != "" })
	if _, id, _ := strings.Cut(old.Status.ContainerStatuses[0].ContainerID, "://"); !strings.Contains(n.must("ctr", "--namespace=k8s.io", "tasks", "ls"), id) {
		t.Fatal("the container of the pod that was deleted does not run any more: the test shows nothing")
	}
	n.service("start", "kubelet")
	// Until the agent or kubelet finds, within a minute, that the claim of old has no pod.
	n.wantPodEvent("new", "FailedPrepareDynamicResources", "kubelet has not unprepared it")
	pod := n.untilPod("new", "ready or failed", func(pod *v1.Pod) bool { return ready(pod) || pod.Status.Phase == v1.PodFailed })
	if pod.Status.Phase == v1.PodFailed {
		t.Errorf("both pods had the devices at the same time: %+v", pod.Status.ContainerStatuses)
	}
	n.wantClaimed("new")
}

// exclusive is a claiming pod that fails if another one of this kind runs: both listen on one port
// of the node.
func exclusive(name string) *v1.Pod {
	pod := claimingPod(name, name)
	pod.Spec.RestartPolicy = v1.RestartPolicyNever
	pod.Spec.HostNetwork = true
	pod.Spec.Containers[0].Command = []string{"nc", "-l", "-p", "7799"}
	return pod
}

// Verifies that a damaged file of a claim costs nothing but a problem: the agent serves, the pod
// runs on, its devices are not given to another pod, and when it ends they are free.
func TestCorruptRecordCostsAProblem(t *testing.T) {
	n := begin(t)
	n.installClaims()
	before := []*v1.Pod{n.startClaiming("one", 2), n.startClaiming("two", 2)}
	held := n.wantClaimed("one")
	claim, err := client.ResourceV1().ResourceClaims(pods).Get(n.soon(), "one", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	uid := string(claim.UID)
	path, ok := n.records()[uid]
	if !ok {
		t.Fatalf("there is no file of claim %s: %v", uid, n.records())
	}
	content, err := os.ReadFile(path)
	if err == nil {
		content[len(content)/2] ^= 1
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.kill("accelmux")
	n.wantReport("the claim is a problem", func(r status.Report) bool {
		return len(r.NotReady) == 0 && slices.ContainsFunc(r.Problems, func(p status.Problem) bool { return strings.Contains(p.Message, uid) })
	})
	n.startClaiming("three", 4)
	if got := n.wantClaimed("three"); slices.ContainsFunc(got, func(id string) bool { return slices.Contains(held, id) }) {
		t.Errorf("pod one has %v, and pod three got %v", held, got)
	}
	for _, pod := range before {
		n.wantUntouched(pod)
	}
	n.delete("one")
	n.eventually("the devices are free", func() bool {
		known, err := devices(context.Background())
		return err == nil && !slices.ContainsFunc(known, func(d status.Device) bool { return slices.Contains(held, d.ID) && len(d.Holders) > 0 })
	})
	n.claim(newClaim("four", 2, withID(held...)))
	n.create(claimingPod("four", "four"))
	n.wantReady("four")
	n.wantClaimed("four")
}

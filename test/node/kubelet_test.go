package node

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// settle makes sure that kubelet runs.
func (n *node) settle() {
	n.Helper()
	if _, err := healthyUnits(context.Background(), n.kubelet); err != nil {
		n.restartKubelet("stop")
	}
}

// restartKubelet ends kubelet with "stop" or "kill", starts it and waits until it
// answers.
func (n *node) restartKubelet(how string) {
	n.Helper()
	n.service(how, "kubelet")
	n.service("start", "kubelet")
	n.waitKubelet()
}

// waitKubelet waits until a kubelet that was started answers.
func (n *node) waitKubelet() {
	n.Helper()
	n.eventually("kubelet answers", func() bool {
		_, err := healthyUnits(context.Background(), n.kubelet)
		return err == nil
	})
}

// wantRegistered waits until kubelet's device manager has that many healthy units,
// and returns how long it took.
func (n *node) wantRegistered(resource string, units int) time.Duration {
	n.Helper()
	return n.eventually("kubelet has the units of "+resource, func() bool {
		have, err := healthyUnits(context.Background(), n.kubelet)
		return err == nil && have[resource] == int64(units)
	})
}

// containers are what tells whether a pod's containers were left alone.
func containers(pod *v1.Pod) map[string]int32 {
	ids := map[string]int32{}
	for _, c := range pod.Status.ContainerStatuses {
		ids[c.ContainerID] = c.RestartCount
	}
	return ids
}

// Kubelet is restarted 20 times, every other time it is killed: the agent
// registers again, pods that run are left alone and keep their devices, and a new
// pod gets those that are free and no other. On a slow machine 5 times will do.
func TestKubeletRestarts(t *testing.T) {
	const (
		most, least, enough = 20, 5, 3 * time.Minute
		// dipLimit is for the middle one of the dips, each of which lasts until kubelet
		// has looked for its plugins and the agent has registered: 0.5 s.
		dipLimit = 15 * time.Second
	)
	n := begin(t)
	n.install(eightGPUs)
	n.wantCounts(gpu, 8, 8)
	names := []string{"one", "two", "three"}
	before := map[string]*v1.Pod{}
	holds := map[string][]string{}
	for _, name := range names {
		before[name] = n.start(name, gpu, 2)
		holds[name] = n.held(name, gpu)
	}
	agent := n.agentPod()

	w := n.watch(gpu)
	restarts := 0
	for ; restarts < least || restarts < most && time.Since(w.started) < enough; restarts++ {
		n.restartKubelet([]string{"stop", "kill"}[restarts%2])
		n.wantRegistered(gpu, 8)
		// Kubelet would refuse a pod among the first that it hears of: it frees the
		// devices of pods that are gone only after that.
		var got []string
		for _, name := range names {
			n.wantHeld(name, gpu, holds[name])
			got = append(got, holds[name]...)
		}
		n.start("new", gpu, 2)
		got = append(got, n.held("new", gpu)...)
		if slices.Sort(got); len(slices.Compact(got)) != 8 {
			t.Errorf("restart %d: devices were given twice: %v and the new pod has %v", restarts, holds, n.held("new", gpu))
		}
		n.delete("new")
	}
	w.wantBack()
	if dips := w.wantDips(restarts); len(dips) > 0 && dips[len(dips)/2] > dipLimit {
		t.Errorf("after %d restarts of kubelet, half of the dips took more than %v: %v", restarts, dipLimit, dips)
	}
	for _, name := range names {
		n.wantUntouched(before[name])
	}
	n.wantUntouched(agent)
	n.wantCounts(gpu, 8, 8)
}

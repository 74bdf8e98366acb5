package kubelet

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/status"
	"github.com/accelmux/accelmux/test/kubelet/agent"
	"github.com/accelmux/accelmux/test/kubelet/realkubelet"
)

// driver is the mock backend's, and class the DeviceClass of its devices.
const (
	driver = "mock.accelmux.io"
	class  = "gpu"
)

// claimNode is a node in a cluster.
type claimNode struct {
	*node
	cluster *realkubelet.Cluster
	// known are the IDs of the devices that were published when a pod was scheduled, by name.
	known map[string]string
}

// need skips the test for a kubelet that does not do this.
func need(t *testing.T, ability realkubelet.Ability) {
	t.Helper()
	_, program := requirePrograms(t)
	release, err := realkubelet.Release(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	ability.Need(t, release)
}

// newClaimNode prepares a node whose kubelet has an API server; only that runs.
func newClaimNode(t *testing.T, edit ...func(*realkubelet.Options)) *claimNode {
	t.Helper()
	need(t, realkubelet.Claims)
	_, program := requirePrograms(t)
	log := &sink{}
	cluster, err := realkubelet.StartCluster(t.Context(), program, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the API server's log:\n%s", tail(log.text(), 20000))
		}
	})
	options := realkubelet.Options{APIServer: cluster.URL}
	for _, e := range edit {
		e(&options)
	}
	n := &claimNode{node: newNode(t, options), cluster: cluster, known: map[string]string{}}
	kubeconfig := filepath.Join(filepath.Dir(n.agent.ConfigFile()), "kubeconfig")
	if err := cluster.WriteKubeconfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	n.agent.Args = append(n.agent.Args, "--kubeconfig", kubeconfig)
	n.createClass(class, driver)
	return n
}

func (n *claimNode) createClass(name, driver string) {
	n.Helper()
	_, err := n.cluster.ResourceV1().DeviceClasses().Create(n.soon(), &resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
			Expression: "device.driver == '" + driver + "'",
		}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
}

// startClaims is newClaimNode with kubelet and the agent running, and the mock's devices published.
func startClaims(t *testing.T, m mock, edit ...func(*agent.Config)) *claimNode {
	t.Helper()
	n := newClaimNode(t)
	n.run(m, edit...)
	return n
}

func (n *claimNode) run(m mock, edit ...func(*agent.Config)) {
	n.Helper()
	n.startKubelet()
	config := m.config(n.node)
	config.Resources[0].API = "dra"
	for _, e := range edit {
		e(&config)
	}
	n.configure(config)
	n.startAgent()
	n.wantPublished(driver, m.Count)
}

// wantPublished waits until so many devices of a driver are published without a taint, and returns how
// long it took.
func (n *claimNode) wantPublished(driver string, count int) time.Duration {
	n.Helper()
	return n.eventually(fmt.Sprintf("%d devices of %s are published and healthy", count, driver), func() bool {
		free := 0
		for _, d := range n.published(driver) {
			if len(d.Taints) == 0 {
				free++
			}
		}
		return free == count
	})
}

// wantServed waits until kubelet has accepted the agent's drivers and the API server their devices.
func (n *claimNode) wantServed() {
	n.Helper()
	n.eventually("the drivers serve", func() bool {
		report, err := n.agent.Status(n.soon())
		return err == nil && len(report.Drivers) > 0 && !slices.ContainsFunc(report.Drivers, func(d status.Driver) bool {
			return !d.Published || !d.Registered || d.Problem != ""
		})
	})
}

// published are the devices of a driver that are in slices, by name.
func (n *claimNode) published(driver string) map[string]resourceapi.Device {
	n.Helper()
	devices, err := n.cluster.Devices(n.soon(), driver)
	if err != nil {
		n.Fatal(err)
	}
	return devices
}

// claim creates a claim for so many devices.
func (n *claimNode) claim(name, class string, count int64) *resourceapi.ResourceClaim {
	n.Helper()
	claim, err := n.cluster.ResourceV1().ResourceClaims("default").Create(n.soon(), realkubelet.NewClaim(name, class, count), metav1.CreateOptions{})
	if err != nil {
		n.Fatal(err)
	}
	return claim
}

// schedule creates a pod with these claims, allocates them, and puts the pod on the node.
func (n *claimNode) schedule(name string, claims ...*resourceapi.ResourceClaim) *v1.Pod {
	n.Helper()
	var names []string
	for _, c := range claims {
		names = append(names, c.Name)
	}
	pod, err := n.cluster.CreatePod(n.soon(), name, names...)
	if err != nil {
		n.Fatal(err)
	}
	n.bind(pod)
	return pod
}

// bind allocates the claims of a pod, and puts it on the node.
func (n *claimNode) bind(pod *v1.Pod) {
	n.Helper()
	published, err := n.cluster.Slices(n.soon())
	if err != nil {
		n.Fatal(err)
	}
	for _, s := range published {
		for _, d := range s.Spec.Devices {
			n.known[d.Name] = *d.Attributes["accelmux.io/id"].StringValue
		}
	}
	if err := n.cluster.Schedule(n.soon(), pod); err != nil {
		n.Fatal(err)
	}
	if err := n.kubelet.Admit(n.soon(), pod); err != nil {
		n.Fatalf("admit %s: %v", pod.Name, err)
	}
}

// tryPrepare prepares a pod's claims as kubelet does, once.
func (n *claimNode) tryPrepare(pod *v1.Pod) error { return n.kubelet.PrepareClaims(n.soon(), pod) }

// prepare prepares a pod's claims as kubelet does, until it succeeds, and starts its container. It
// returns the CDI names that the container runtime gets.
func (n *claimNode) prepare(pod *v1.Pod) []string {
	n.Helper()
	n.retried("prepare the claims of "+pod.Name, func() error { return n.tryPrepare(pod) })
	return n.names(pod)
}

// names are the CDI names that the container runtime gets for a pod's container that starts.
func (n *claimNode) names(pod *v1.Pod) []string {
	n.Helper()
	names := realkubelet.Names(n.startContainer(pod))
	if !realkubelet.PreparedOnce.Can(n.kubelet.Release()) {
		slices.Sort(names)
		return slices.Compact(names)
	}
	return names
}

// ids are those of the devices that a claim was allocated.
func (n *claimNode) ids(claim *resourceapi.ResourceClaim) []string {
	n.Helper()
	names, err := n.cluster.Allocated(n.soon(), claim)
	if err != nil {
		n.Fatal(err)
	}
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = n.known[name]
	}
	return ids
}

// wantNames fails unless the names are those of a claim's devices of a backend, and a runtime finds
// their definitions, with a node each.
func (n *claimNode) wantNames(names []string, backend string, claim *resourceapi.ResourceClaim) {
	n.Helper()
	var want []string
	for _, id := range n.ids(claim) {
		want = append(want, backend+".accelmux.io/holder="+id+"::"+string(claim.UID))
	}
	if !slices.Equal(names, want) {
		n.Errorf("the container has the CDI names %v; want %v", names, want)
	}
	for _, name := range names {
		if len(n.nodes(name)) == 0 {
			n.Errorf("%s has no device node", name)
		}
	}
}

// wantHeld fails unless a claim holds the devices, for the agent, or nobody does.
func (n *claimNode) wantHeld(held bool, ids ...string) {
	n.Helper()
	for _, id := range ids {
		if holders := n.device(id).Holders; held != (len(holders) == 1) {
			n.Errorf("%s has the holders %+v; want one: %t", id, holders, held)
		}
	}
}

// finish is the end of a pod: its containers have ended, and kubelet unprepares its claims.
func (n *claimNode) finish(pod *v1.Pod) {
	n.Helper()
	n.retried("unprepare the claims of "+pod.Name, func() error { return n.kubelet.UnprepareClaims(n.soon(), pod) })
	n.kubelet.RemovePod(pod)
	if err := n.cluster.DeletePod(n.soon(), pod); err != nil {
		n.Fatal(err)
	}
}

// retried does something until it succeeds.
func (n *claimNode) retried(what string, do func() error) {
	n.Helper()
	var last error
	if _, err := realkubelet.Poll(n.soon(), func() bool {
		last = do()
		return last == nil
	}); err != nil {
		n.Fatalf("%s: not within %v: %v", what, patience, last)
	}
}

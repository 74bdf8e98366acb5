package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/kubeapi"
)

// Cluster is what the API server has of a node.
type Cluster struct {
	// Node is the name of the Node.
	Node string
	// Capacity and Allocatable are its resources in node.status.
	Capacity, Allocatable map[string]int64
	// Published is how many devices each driver has in the node's ResourceSlices.
	Published map[string]int
}

// ReadCluster asks the API server for what it has of a node: with a kubeconfig's credentials or, with
// "" in a pod, those of its service account. withSlices says whether ResourceSlices are read, too.
func ReadCluster(ctx context.Context, kubeconfig, node string, withSlices bool) (*Cluster, error) {
	at, err := kubeapi.Config(kubeconfig)
	if errors.Is(err, kubeapi.ErrNone) {
		return nil, fmt.Errorf("%w: run doctor in the agent's pod, or name a kubeconfig with --kubeconfig", err)
	} else if err != nil {
		return nil, err
	}
	client, err := kubeapi.Connect(at)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return readCluster(ctx, client, node, withSlices)
}

func readCluster(ctx context.Context, client *kubeapi.Client, name string, withSlices bool) (*Cluster, error) {
	node, err := client.Clientset().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, explained(err, "get", "nodes")
	}
	c := &Cluster{Node: name, Capacity: map[string]int64{}, Allocatable: map[string]int64{}, Published: map[string]int{}}
	for resource, quantity := range node.Status.Capacity {
		c.Capacity[string(resource)] = quantity.Value()
	}
	for resource, quantity := range node.Status.Allocatable {
		c.Allocatable[string(resource)] = quantity.Value()
	}
	if !withSlices {
		return c, nil
	}
	list, err := client.Clientset().ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, name).String(),
	})
	if err != nil {
		return nil, explained(err, "list", "resourceslices.resource.k8s.io")
	}
	type pool struct{ driver, name string }
	newest := map[pool]int64{} // slices of older generations are ignored by schedulers
	for _, s := range list.Items {
		at := pool{s.Spec.Driver, s.Spec.Pool.Name}
		newest[at] = max(newest[at], s.Spec.Pool.Generation)
	}
	for _, s := range list.Items {
		if s.Spec.Pool.Generation == newest[pool{s.Spec.Driver, s.Spec.Pool.Name}] {
			c.Published[s.Spec.Driver] += len(s.Spec.Devices)
		}
	}
	return c, nil
}

func explained(err error, verb, resource string) error {
	if text, ok := kubeapi.Forbidden(err, verb, resource, ""); ok {
		return errors.New(text)
	}
	return err
}

// nodeStep is the name of the step that compares with the API server.
const nodeStep = "Node"

// NodeDiffers reports whether the Node that the API server has stops a device.
func (r Result) NodeDiffers() bool {
	return slices.ContainsFunc(r.Devices, func(d *Device) bool { return d.StopsAt == nodeStep })
}

// node compares what the API server has of the node with what the agent has registered and published.
func node(w *walk) Finding {
	if w.Report == nil {
		return w.unknown()
	}
	if w.Cluster == nil {
		return Finding{State: NotChecked, Why: w.ClusterErr.Error()}
	}
	const do = "kubelet should have written node.status by now: check its log, and `kubectl describe node "
	found := Finding{State: OK, Why: "the Node " + w.Cluster.Node + " has what the agent has"}
	for _, r := range w.Report.Resources {
		if r.API == string(config.APIDRA) || r.State != string(deviceplugin.StateServing) || r.Conflict != "" {
			continue
		}
		capacity, allocatable := w.Cluster.Capacity[r.Name], w.Cluster.Allocatable[r.Name]
		if capacity != int64(r.Units) || allocatable != int64(r.Healthy) {
			found = w.stopAll(func(d *Device) bool { return d.Resource == r.Name }, fmt.Sprintf("the Node %s has %d of %s, %d of them allocatable; the agent has %d, %d of them healthy",
				w.Cluster.Node, capacity, r.Name, allocatable, r.Units, r.Healthy), do+w.Cluster.Node+"`")
		}
	}
	for _, driver := range w.Report.Drivers {
		if !driver.Registered || !driver.Published {
			continue
		}
		if n := w.Cluster.Published[driver.Name]; n != driver.Devices {
			found = w.stopAll(func(d *Device) bool { return byDRA(d) && d.Backend == driver.Backend },
				fmt.Sprintf("the ResourceSlices of driver %s have %d devices of the Node %s; the agent has %d to publish", driver.Name, n, w.Cluster.Node, driver.Devices),
				"check `kubectl get resourceslices --field-selector spec.nodeName="+w.Cluster.Node+"`, and that nothing else writes slices of this driver")
		}
	}
	return found
}

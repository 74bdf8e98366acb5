package node

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// dialPodResources makes a client of kubelet's pod-resources API. It connects
// again by itself when kubelet was restarted.
func (n *node) dialPodResources() podresources.PodResourcesListerClient {
	n.Helper()
	conn, err := grpc.NewClient("unix://"+podResources, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() { _ = conn.Close() })
	return podresources.NewPodResourcesListerClient(conn)
}

// held lists the IDs of the units that kubelet says the pod's containers have.
func (n *node) held(pod, resource string) []string {
	n.Helper()
	kubelet := n.dialPodResources()
	var ids []string
	n.eventually("kubelet lists who holds what", func() bool {
		answer, err := kubelet.List(context.Background(), &podresources.ListPodResourcesRequest{})
		if err != nil {
			return false
		}
		ids = nil
		for _, p := range answer.PodResources {
			if p.Name != pod || p.Namespace != pods {
				continue
			}
			for _, c := range p.Containers {
				for _, d := range c.Devices {
					if d.ResourceName == resource {
						ids = append(ids, d.DeviceIds...)
					}
				}
			}
		}
		return true
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

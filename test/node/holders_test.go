package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// dialPodResources makes a client of kubelet's pod-resources API. It connects
// again by itself, and soon, when kubelet was restarted.
func dialPodResources(t *testing.T) podresources.PodResourcesListerClient {
	t.Helper()
	soon := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1, MaxDelay: 5 * time.Millisecond},
		MinConnectTimeout: askLimit, // or it is the delay, and a busy kubelet too late
	}
	conn, err := grpc.NewClient("unix://"+podResources, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(soon), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return podresources.NewPodResourcesListerClient(conn)
}

// held lists the IDs of the units that kubelet says the pod's containers have. It
// asks for the pod alone: a List right after a start of kubelet can make it forget
// what pods hold that it has yet to hear of.
func (n *node) held(pod, resource string) []string {
	n.Helper()
	var ids []string
	n.eventually("kubelet says what pod "+pod+" holds", func() bool {
		answer, err := n.kubelet.Get(context.Background(), &podresources.GetPodResourcesRequest{PodName: pod, PodNamespace: pods})
		if err != nil {
			return false
		}
		ids = nil
		for _, c := range answer.GetPodResources().GetContainers() {
			for _, d := range c.Devices {
				if d.ResourceName == resource {
					ids = append(ids, d.DeviceIds...)
				}
			}
		}
		return true
	})
	slices.Sort(ids)
	return slices.Compact(ids)
}

//go:build kubelet1.28

package main

import (
	"context"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	podresourcesgrpc "k8s.io/kubernetes/pkg/kubelet/apis/podresources/grpc"
)

func limited(context.Context) grpc.ServerOption {
	return podresourcesgrpc.WithRateLimiter(podresourcesgrpc.DefaultQPS, podresourcesgrpc.DefaultBurstTokens)
}

func v1Server(_ context.Context, providers podresources.PodResourcesProviders) podresourcesv1.PodResourcesListerServer {
	return podresources.NewV1PodResourcesServer(providers)
}

func (claims) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesv1.DynamicResource {
	return nil
}

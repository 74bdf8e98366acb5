//go:build kubelet1.31

package main

import (
	"context"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

func limited(context.Context) grpc.ServerOption {
	return apisgrpc.WithRateLimiter("podresources", podresources.DefaultQPS, podresources.DefaultBurstTokens)
}

func v1Server(_ context.Context, providers podresources.PodResourcesProviders) podresourcesv1.PodResourcesListerServer {
	return podresources.NewV1PodResourcesServer(providers)
}

func (claims) GetDynamicResources(*v1.Pod, *v1.Container) []*podresourcesv1.DynamicResource {
	return nil
}

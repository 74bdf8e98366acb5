//go:build kubelet1.34 || kubelet1.35 || kubelet1.36

package main

import (
	"context"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	apisgrpc "k8s.io/kubernetes/pkg/kubelet/apis/grpc"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

func limited(ctx context.Context) grpc.ServerOption {
	return apisgrpc.WithRateLimiter(ctx, "podresources", podresources.DefaultQPS, podresources.DefaultBurstTokens)
}

func v1Server(ctx context.Context, providers podresources.PodResourcesProviders) podresourcesv1.PodResourcesListerServer {
	return podresources.NewV1PodResourcesServer(ctx, providers)
}

//go:build kubelet1.28 || kubelet1.31 || kubelet1.34 || kubelet1.35 || kubelet1.36

package main

import (
	"context"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

func newPodResources(ctx context.Context, k *kubelet) *grpc.Server {
	providers := podresources.PodResourcesProviders{
		Pods: podsOf{k}, Devices: devicesOf{k.devices}, Cpus: nothing{}, Memory: nothing{}, DynamicResources: k.claims,
	}
	server := grpc.NewServer(limited(ctx))
	podresourcesv1alpha1.RegisterPodResourcesListerServer(server, podresources.NewV1alpha1PodResourcesServer(providers))
	podresourcesv1.RegisterPodResourcesListerServer(server, v1Server(ctx, providers))
	return server
}

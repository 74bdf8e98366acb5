//go:build kubelet1.26

package main

import (
	"context"

	"google.golang.org/grpc"
	podresourcesv1 "k8s.io/kubelet/pkg/apis/podresources/v1"
	podresourcesv1alpha1 "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
)

func newPodResources(_ context.Context, k *kubelet) *grpc.Server {
	server := grpc.NewServer()
	podresourcesv1alpha1.RegisterPodResourcesListerServer(server, podresources.NewV1alpha1PodResourcesServer(podsOf{k}, devicesOf{k.devices}))
	podresourcesv1.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(podsOf{k}, devicesOf{k.devices}, nothing{}, nothing{}))
	return server
}

//go:build kubelet1.36

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (k *kubelet) admit(_ context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return k.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, Operation: lifecycle.AddOperation})
}

//go:build kubelet1.26 || kubelet1.28 || kubelet1.31 || kubelet1.34 || kubelet1.35

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

func (k *kubelet) admit(_ context.Context, pod *v1.Pod) lifecycle.PodAdmitResult {
	return k.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: pod})
}

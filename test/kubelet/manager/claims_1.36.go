//go:build !kubelet1.26 && !kubelet1.28 && !kubelet1.31 && !kubelet1.34 && !kubelet1.35

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
)

func getNode(get func(context.Context) (*v1.Node, error)) dra.GetNodeFunc { return get }

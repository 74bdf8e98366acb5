//go:build kubelet1.26 || kubelet1.28 || kubelet1.31

package main

import (
	"context"
	"errors"
	"io"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

// errNoClaims: these releases have the API in another version, and off by default.
var errNoClaims = errors.New("this release has no resource.k8s.io/v1")

type claims struct{}

func (claims) PrepareResources(context.Context, *v1.Pod) error   { return errNoClaims }
func (claims) UnprepareResources(context.Context, *v1.Pod) error { return errNoClaims }

func (claims) names(*v1.Pod, *v1.Container) ([]string, error) { return nil, nil }

func (claims) addStatus(klog.Logger, *v1.Pod, *v1.PodStatus) {}

func (k *kubelet) startClaims(context.Context) error { return nil }

func (k *kubelet) watchDrivers(pluginmanager.PluginManager) {}

func serveCluster(io.Reader, io.Writer) error { return errNoClaims }

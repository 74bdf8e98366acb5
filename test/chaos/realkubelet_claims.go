package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/devicemanager"
	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

// Claims is of 1.34 and later: those before have no resource.k8s.io/v1.
func (k *realKubelet) Claims() draKubelet {
	if k.minor < 34 {
		return nil
	}
	return k
}

// Drivers are those to which somebody is connected.
func (k *realKubelet) Drivers() []string {
	var names []string
	for _, path := range connected(k.dir) {
		if dir := filepath.Dir(path); filepath.Dir(dir) == filepath.Join(k.dir, "plugins") {
			names = append(names, filepath.Base(dir))
		}
	}
	return names
}

func newClaimPod(name, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{
			ResourceClaims: []v1.PodResourceClaim{{Name: "claim", ResourceClaimName: &claim}},
			Containers:     []v1.Container{{Name: containerName, Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{Name: "claim"}}}}},
		},
	}
}

func (k *realKubelet) PrepareClaim(ctx context.Context, name string, claim kubelettest.Claim) ([]string, error) {
	p := k.running()
	if p == nil {
		return nil, errors.New("kubelet does not run")
	}
	if err := k.admitClaim(ctx, p, newClaimPod(name, claim.Name)); err != nil {
		return nil, err
	}
	if err := p.Call(ctx, "PrepareClaims", name, &wire.Nothing{}); err != nil {
		return nil, err
	}
	var options wire.ContainerOptions
	container := wire.Container{Pod: name, Name: containerName, ID: "cri://" + name}
	if err := p.Call(ctx, "StartContainer", container, &options); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.claimPods[name].Containers[containerName] = container.ID
	names := map[string]bool{} // up to 1.36 a container has each twice after a restart
	for _, d := range options.CDIDevices {
		names[d.Name] = true
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// admitClaim admits a pod with a claim, unless kubelet has it already.
func (k *realKubelet) admitClaim(ctx context.Context, p *devicemanager.Process, pod *v1.Pod) error {
	k.mu.Lock()
	admitted := k.claimPods[pod.Name] != nil
	k.mu.Unlock()
	if admitted {
		return nil
	}
	verdict, err := p.Admit(ctx, pod)
	if err != nil {
		return err
	}
	if !verdict.Admitted {
		return fmt.Errorf("%s: %s", verdict.Reason, verdict.Message)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.claimPods[pod.Name] = &wire.Running{Pod: pod, Containers: map[string]string{}}
	return nil
}

// UnprepareClaim leaves it to kubelet whether the pod is the claim's last one.
func (k *realKubelet) UnprepareClaim(ctx context.Context, pod string, _ kubelettest.Claim, _ bool) error {
	k.mu.Lock()
	p, admitted := k.process, k.claimPods[pod] != nil
	k.mu.Unlock()
	switch {
	case p == nil:
		return errors.New("kubelet does not run")
	case !admitted:
		return nil
	}
	return p.Call(ctx, "UnprepareClaims", pod, &wire.Nothing{})
}

func (k *realKubelet) FreeClaims(pod string) {
	k.mu.Lock()
	p := k.process
	delete(k.claimPods, pod)
	k.mu.Unlock()
	if p != nil {
		ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
		defer cancel()
		_ = p.RemovePod(ctx, pod) // the next one does not hear of it
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/deviceplugin/kubelettest"
	"github.com/accelmux/accelmux/test/devicemanager/wire"
)

func (k *realKubelet) Allocate(ctx context.Context, name, resource string, count int) (*kubelettest.Allocation, error) {
	p := k.running()
	if p == nil {
		return nil, errors.New("kubelet does not run")
	}
	pod := newPod(name, resource, count)
	verdict, err := p.Admit(ctx, pod)
	if err != nil {
		return nil, err
	}
	if !verdict.Admitted {
		return nil, fmt.Errorf("%s: %s", verdict.Reason, verdict.Message)
	}
	k.mu.Lock()
	k.pods[name] = &wire.Running{Pod: pod, Containers: map[string]string{}}
	k.mu.Unlock()
	// Without a plugin ever, the resource is none of the device manager's: there the rest
	// of kubelet refuses the pod, for the node has nothing of it.
	held, err := p.Devices(ctx, name, containerName)
	if err == nil && len(held[resource]) == 0 {
		err = fmt.Errorf("kubelet knows of no %s", resource)
	}
	if err != nil {
		k.Free(name)
		return nil, err
	}
	a, err := k.checkpointed(ctx, name)
	if err != nil {
		k.Free(name)
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.books[name] = *a
	return a, nil
}

func newPod(name, of string, count int) *v1.Pod {
	list := v1.ResourceList{v1.ResourceName(of): *resource.NewQuantity(int64(count), resource.DecimalSI)}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: containerName, Resources: v1.ResourceRequirements{Limits: list, Requests: list}}}},
	}
}

// checkpoint is the device manager's file kubelet_internal_checkpoint, as
// k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint has it.
type checkpoint struct {
	Data struct {
		PodDeviceEntries []struct {
			PodUID, ResourceName string
			DeviceIDs            map[string][]string // by NUMA node
			AllocResp            []byte
		}
	}
}

// checkpointed is what a pod was given: the plugin's answer is nowhere else. Kubelet
// has written it when it answers, but another list may be written at that moment.
func (k *realKubelet) checkpointed(ctx context.Context, pod string) (*kubelettest.Allocation, error) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(k.PluginDir(), "kubelet_internal_checkpoint"))
		if err != nil {
			return nil, err
		}
		var c checkpoint
		if err := json.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("kubelet's checkpoint: %w", err)
		}
		for _, e := range c.Data.PodDeviceEntries {
			if e.PodUID != pod {
				continue
			}
			a := &kubelettest.Allocation{
				Pod: pod, Container: containerName, Resource: e.ResourceName,
				Devices:  slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(e.DeviceIDs))...))),
				Response: &pluginapi.ContainerAllocateResponse{},
			}
			return a, proto.Unmarshal(e.AllocResp, a.Response)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("kubelet has admitted %s, and its checkpoint has nothing of it: %w", pod, ctx.Err())
		case <-tick.C:
		}
	}
}

func (k *realKubelet) StartContainer(ctx context.Context, pod string) error {
	p := k.running()
	if p == nil {
		return errors.New("kubelet does not run")
	}
	id := "cri://" + pod
	if err := p.StartContainer(ctx, pod, containerName, id); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods[pod].Containers[containerName] = id
	return nil
}

func (k *realKubelet) Free(pod string) {
	k.mu.Lock()
	p := k.process
	delete(k.pods, pod)
	delete(k.books, pod)
	k.mu.Unlock()
	if p != nil { // the next one does not hear of it
		ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
		defer cancel()
		_ = p.RemovePod(ctx, pod)
	}
}

// Mortal are pods whose container did not start yet: a kubelet that starts admits only
// those again whose containers run, as no plugin has registered by then.
func (k *realKubelet) Mortal() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var waiting []string
	for _, name := range slices.Sorted(maps.Keys(k.pods)) {
		if len(k.pods[name].Containers) == 0 {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// Allocations are what kubelet says, or what it said last if it does not run.
func (k *realKubelet) Allocations() []kubelettest.Allocation {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []kubelettest.Allocation
	for _, name := range slices.Sorted(maps.Keys(k.pods)) {
		a := k.books[name]
		if k.process != nil {
			if held, err := k.process.Devices(ctx, name, containerName); err == nil {
				a.Devices = held[a.Resource]
				k.books[name] = a
			}
		}
		all = append(all, a)
	}
	return all
}

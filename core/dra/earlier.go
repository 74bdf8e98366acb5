package dra

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/accelmux/accelmux/core/backoff"
	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/kubeletdir"
	"github.com/accelmux/accelmux/core/wake"
)

// findEarlier finds the drivers of the agent before this one, of which slices are left, for apply: those that are no
// longer configured linger as if this agent had run them. It gives up when kubelet deletes such slices, which it does
// 30 s after a driver is gone (pkg/kubelet/cm/dra/plugin, defaultWipingDelay).
func (f *Frontend) findEarlier(ctx context.Context) {
	if f.opts.Client == nil {
		return
	}
	pauses := backoff.New(firstPause, maxPause)
	for time.Since(f.began) < reportLimit {
		names, err := f.listEarlier(ctx)
		switch {
		case err == nil:
			f.mu.Lock()
			f.earlier = names
			f.mu.Unlock()
			wake.Send(f.wake)
			return
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // as where nothing was served by the API
			return
		case !backoff.Sleep(ctx, pauses.Step()):
			return
		}
	}
}

// listEarlier returns the drivers with slices of this node whose devices have the core's attributes, except those that
// another program serves.
func (f *Frontend) listEarlier(ctx context.Context) (names []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	all, err := f.opts.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{resourceapi.ResourceSliceSelectorNodeName: f.opts.NodeName}.String(),
	})
	if err != nil {
		return nil, err
	}
	for _, slice := range all.Items {
		name := slice.Spec.Driver
		if !slices.Contains(names, name) && slices.ContainsFunc(slice.Spec.Devices, hasFacts) && kubeletdir.Dial(ctx, filepath.Join(f.opts.KubeletRootDir, "plugins", name, "dra.sock")) != nil {
			names = append(names, name)
		}
	}
	return names, nil
}

// hasFacts reports whether a published device has the attributes that the core gives to each.
func hasFacts(d resourceapi.Device) bool {
	_, ok := d.Attributes[config.FactsDomain+"/"+config.FactID]
	return ok
}

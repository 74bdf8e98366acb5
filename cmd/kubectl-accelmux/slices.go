package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/accelmux/accelmux/core/status/listing"
)

// factsDomain is that of the attributes that accelmux's agents publish of every device.
const factsDomain = "accelmux.io/"

// published returns the devices of all drivers' ResourceSlices by node, those of pools' newest generations.
func (c *cluster) published(ctx context.Context, n *names) (map[string][]Device, error) {
	list, err := c.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	switch {
	case apierrors.IsNotFound(err): // a cluster without dynamic resource allocation
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list resourceslices: %w", err)
	}
	type pool struct{ driver, name string }
	newest := map[pool]int64{}
	for _, s := range list.Items {
		at := pool{s.Spec.Driver, s.Spec.Pool.Name}
		newest[at] = max(newest[at], s.Spec.Pool.Generation)
	}
	rules, err := c.rules(ctx)
	if err != nil {
		return nil, err
	}
	devices := map[string][]Device{}
	for _, s := range list.Items {
		if s.Spec.NodeName == nil || s.Spec.Pool.Generation < newest[pool{s.Spec.Driver, s.Spec.Pool.Name}] {
			continue
		}
		for _, d := range s.Spec.Devices {
			device := deviceOf(s.Spec.Driver, d)
			device.at = pooled{s.Spec.Driver, s.Spec.Pool.Name, d.Name}
			device.Node, device.Holders = *s.Spec.NodeName, n.holdersOf(device.at)
			for i := range rules {
				if selects(&rules[i], device.at) && rules[i].Spec.Taint.Effect != resourceapi.DeviceTaintEffectNone {
					device.Healthy, device.Faults = false, append(device.Faults, ruleFault(&rules[i]))
				}
			}
			devices[device.Node] = append(devices[device.Node], device)
		}
	}
	return devices, nil
}

// deviceOf returns a device of a slice. Its backend is the driver. It is unhealthy if a taint of the slice keeps pods from it.
func deviceOf(driver string, d resourceapi.Device) Device {
	device := Device{Driver: driver, Device: listing.Device{Backend: driver, ID: d.Name, Healthy: true, Attributes: map[string]any{}}}
	for name, a := range d.Attributes {
		value := valueOf(a)
		switch short := string(name)[strings.LastIndex(string(name), "/")+1:]; {
		case string(name) == factsDomain+"id":
			device.ours = true
		case string(name) == factsDomain+"class":
			device.Class = fmt.Sprint(value)
		case short == "productName", short == "model":
			device.Attributes["model"] = value
		default:
			device.Attributes[string(name)] = value
		}
	}
	for _, taint := range d.Taints {
		if taint.Effect != resourceapi.DeviceTaintEffectNone {
			device.Healthy, device.Faults = false, append(device.Faults, taintFault(taint))
		}
	}
	return device
}

// taintFault is what a taint means for its device.
func taintFault(taint resourceapi.DeviceTaint) listing.Fault {
	fault := listing.Fault{Code: cmp.Or(taint.Value, taint.Key), Message: taint.Key, Recovery: string(taint.Effect)}
	if taint.TimeAdded != nil {
		fault.Since = taint.TimeAdded.Time
	}
	return fault
}

func valueOf(a resourceapi.DeviceAttribute) any {
	switch {
	case a.StringValue != nil:
		return *a.StringValue
	case a.IntValue != nil:
		return *a.IntValue
	case a.BoolValue != nil:
		return *a.BoolValue
	case a.VersionValue != nil:
		return *a.VersionValue
	}
	return fmt.Sprint(a.StringValues, a.IntValues, a.BoolValues, a.VersionValues)
}

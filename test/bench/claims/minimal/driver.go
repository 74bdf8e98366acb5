// Package minimal is the least that a good driver of dynamic resource allocation does, as a floor:
// k8s.io/dynamic-resource-allocation/kubeletplugin, slices of 64 devices as they are given, and one
// CDI spec file a claim, which is replaced at once and is on disk when kubelet gets its answer. It
// has no record of claims, no health, no parameters and no check of what it is asked for.
package minimal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	cdiapi "tags.cncf.io/container-device-interface/specs-go"

	"github.com/accelmux/accelmux/core/checkpoint"
)

// Options of [Start]; all are required. The directories must exist.
type Options struct {
	Name, Node         string
	KubeletDir, CDIDir string
	Client             kubernetes.Interface
}

// Driver serves kubelet until Stop.
type Driver struct {
	opts   Options
	helper *kubeletplugin.Helper
}

// Start starts a driver.
func Start(ctx context.Context, o Options) (*Driver, error) {
	d := &Driver{opts: o}
	data, registry := filepath.Join(o.KubeletDir, "plugins", o.Name), filepath.Join(o.KubeletDir, "plugins_registry")
	err := errors.Join(os.MkdirAll(data, 0o750), os.MkdirAll(registry, 0o750))
	if err == nil {
		d.helper, err = kubeletplugin.Start(ctx, d, kubeletplugin.DriverName(o.Name), kubeletplugin.NodeName(o.Node), kubeletplugin.KubeClient(o.Client),
			kubeletplugin.PluginDataDirectoryPath(data), kubeletplugin.RegistrarDirectoryPath(registry))
	}
	return d, err
}

// Stop ends the driver. Its slices stay.
func (d *Driver) Stop() { d.helper.Stop() }

// Publish publishes the devices.
func (d *Driver) Publish(ctx context.Context, devices []resourceapi.Device) error {
	var pool resourceslice.Pool
	for chunk := range slices.Chunk(devices, resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: chunk})
	}
	return d.helper.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.opts.Node: pool}})
}

// PrepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, c := range claims {
		devices, err := d.prepare(c)
		results[c.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return results, nil
}

// prepare writes the claim's CDI spec.
func (d *Driver) prepare(c *resourceapi.ResourceClaim) (devices []kubeletplugin.Device, err error) {
	spec := cdiapi.Spec{Version: "0.6.0", Kind: d.opts.Name + "/claim"}
	for _, result := range c.Status.Allocation.Devices.Results {
		if result.Driver != d.opts.Name {
			continue
		}
		name := string(c.UID) + "-" + result.Device
		spec.Devices = append(spec.Devices, cdiapi.Device{Name: name, ContainerEdits: cdiapi.ContainerEdits{Env: []string{"DEVICE_" + result.Device + "=" + name}}})
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{result.Request}, PoolName: result.Pool, DeviceName: result.Device, CDIDeviceIDs: []string{spec.Kind + "=" + name},
		})
	}
	content, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	return devices, checkpoint.Writer{}.Replace(d.spec(c.UID), content, 0o644)
}

// spec is the path of a claim's CDI spec file.
func (d *Driver) spec(claim types.UID) string {
	return filepath.Join(d.opts.CDIDir, d.opts.Name+"-claim_"+string(claim)+".json")
}

// UnprepareResourceClaims implements kubeletplugin.DRAPlugin.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, c := range claims {
		if err := os.Remove(d.spec(c.UID)); !errors.Is(err, fs.ErrNotExist) {
			results[c.UID] = err
		}
	}
	return results, nil
}

// WatchHealthStatus implements kubeletplugin.DRAPlugin.
func (d *Driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// HandleError implements kubeletplugin.DRAPlugin.
func (d *Driver) HandleError(ctx context.Context, err error, message string) {
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "the minimal driver: %s: %v\n", message, err)
	}
}

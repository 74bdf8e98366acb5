package dra

import (
	"context"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/accelmux/accelmux/core/dra/pool"
	"github.com/accelmux/accelmux/core/resource"
)

// healthInterval is how often an unchanged health is sent again. Kubelet treats it as unknown 30 s
// after the last report.
const healthInterval = 10 * time.Second

// maxHealthMessage bounds a message, in bytes (kubelet's limit, pkg/kubelet/cm/dra).
const maxHealthMessage = 1024

// WatchHealthStatus implements kubeletplugin.DRAPlugin: it reports the verdict on each device at
// once, after each change, and at intervals.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	again := time.NewTicker(healthInterval)
	defer again.Stop()
	for {
		report, published := d.healthReport()
		select {
		case <-ctx.Done():
			return nil
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-published:
		case <-again.C:
		}
	}
}

// healthReport returns the health of all devices, and a channel that the next Publish closes.
func (d *Driver) healthReport() (kubeletplugin.DeviceHealthReport, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var report kubeletplugin.DeviceHealthReport
	for name, device := range d.devices {
		health := kubeletplugin.DeviceHealth{
			PoolName: d.opts.NodeName, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: now,
		}
		if !device.Verdict.Healthy {
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, device.Verdict.Faults[0].Message
			health.Message = strings.ToValidUTF8(health.Message[:min(len(health.Message), maxHealthMessage)], "")
		}
		report.Devices = append(report.Devices, health)
	}
	return report, d.published
}

// tolerated reports whether the claim tolerates the taint of an unhealthy device.
func (d *Driver) tolerated(result resourceapi.DeviceRequestAllocationResult, device resource.Device) bool {
	taint := pool.Taint(device.Verdict, d.newest().Evict)
	for _, t := range result.Tolerations {
		if resourceclaim.ToleratesTaint(t, taint) {
			return true
		}
	}
	return false
}

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
	"github.com/accelmux/accelmux/core/text"
)

// healthInterval is how often an unchanged health is sent again. Kubelet treats it as unknown 30 s
// after the last report.
const healthInterval = 10 * time.Second

const (
	// maxHealthMessage bounds a message, in bytes (kubelet's limit, pkg/kubelet/cm/dra).
	maxHealthMessage = 1024
	// maxHealthReport bounds a report, in bytes: gRPC's default for what a client receives, which
	// kubelet does not change.
	maxHealthReport = 4 << 20
	// healthOverhead is more than a device has in a report besides its names and its message.
	healthOverhead = 64
)

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
	now, limit := time.Now(), d.messageLimit()
	var report kubeletplugin.DeviceHealthReport
	for name, device := range d.devices {
		health := kubeletplugin.DeviceHealth{
			PoolName: d.opts.NodeName, DeviceName: name, Health: kubeletplugin.HealthStatusHealthy, LastUpdated: now,
		}
		if !device.Verdict.Healthy {
			health.Health, health.Message = kubeletplugin.HealthStatusUnhealthy, device.Verdict.Faults[0].Message
			health.Message = strings.ToValidUTF8(text.Cut(health.Message, limit), "")
		}
		report.Devices = append(report.Devices, health)
	}
	return report, d.published
}

// messageLimit returns how many bytes the message of each unhealthy device may have, so that the
// report is not larger than kubelet accepts. d.mu is held.
func (d *Driver) messageLimit() int {
	left, unhealthy := maxHealthReport, 0
	for name, device := range d.devices {
		left -= len(d.opts.NodeName) + len(name) + healthOverhead
		if !device.Verdict.Healthy {
			unhealthy++
		}
	}
	return min(maxHealthMessage, max(left, 0)/max(unhealthy, 1))
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

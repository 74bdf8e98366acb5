package main

import (
	"context"
	"strconv"

	"github.com/accelmux/accelmux/backends/sdk"
)

var _ sdk.Sampler = (*backend)(nil)

// Sample is step 4: it reads how long each camera was active, which sysfs has in milliseconds
// (Documentation/ABI/testing/sysfs-bus-usb). An unknown value is left out.
func (b *backend) Sample(context.Context) (metrics []*sdk.Metric, err error) {
	dirs, err := b.cameras()
	for id, dir := range dirs {
		if ms, err := strconv.ParseFloat(read(dir, "power/active_duration"), 64); err == nil {
			metrics = append(metrics, sdk.Counter(id, "active_seconds_total", ms/1000))
		}
	}
	return metrics, err
}

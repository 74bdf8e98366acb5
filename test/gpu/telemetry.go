//go:build cgo

package main

import (
	"fmt"
	"math"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
)

// measure is a value of ours and where nvidia-smi has the same.
type measure struct {
	name, label string
	// unit is nvidia-smi's, in ours; bound, in nvidia-smi's, is how far the value
	// may move between two readings.
	unit, bound float64
	paths       []string
}

var measures = []measure{
	{"utilization_ratio", "", 0.01, 25, []string{"utilization/gpu_util"}},
	{"memory_utilization_ratio", "", 0.01, 25, []string{"utilization/memory_util"}},
	{"memory_used_bytes", "", 1 << 20, 1024, []string{"fb_memory_usage/used"}}, // ours has what the driver reserves
	{"memory_total_bytes", "", 1 << 20, 1, []string{"fb_memory_usage/total"}},
	{"temperature_celsius", "gpu", 1, 10, []string{"temperature/gpu_temp"}},
	{"temperature_celsius", "memory", 1, 10, []string{"temperature/memory_temp"}},
	{"power_watts", "", 1, 50, []string{"gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw"}},
	{"clock_hertz", "sm", 1e6, 200, []string{"clocks/sm_clock"}},
	{"clock_hertz", "memory", 1e6, 200, []string{"clocks/mem_clock"}},
	{"pcie_replays_total", "", 1, 0, []string{"pci/replay_counter"}},
}

// reasons are nvidia-smi's names of what slows a GPU down, behind the name of the
// group, which drivers before R535 have as clocks_throttle_reason.
var reasons = map[string]string{
	"software-power-cap": "sw_power_cap", "hardware-slowdown": "hw_slowdown", "sync-boost": "sync_boost",
	"software-thermal-slowdown": "sw_thermal_slowdown", "hardware-thermal-slowdown": "hw_thermal_slowdown",
	"hardware-power-brake": "hw_power_brake_slowdown",
}

// errorCounters are our names of memory errors, and nvidia-smi's groups of them.
var errorCounters = map[string]string{"ecc_errors_total": "volatile", "ecc_errors_lifetime_total": "aggregate"}

// telemetry compares what moves, within bounds. MIG devices have no values of their
// own in nvidia-smi that could be told by UUID.
func (c *comparison) telemetry(ours []driver.Telemetry, theirs report) {
	for _, smi := range theirs.gpus {
		uuid, _ := smi.at("uuid")
		found := false
		for _, t := range ours {
			if t.GPU != uuid {
				continue
			}
			found = true
			if t.Err != nil {
				c.differ(t.GPU, "telemetry", t.Err, "something")
			}
			c.measures(t, smi)
		}
		if !found {
			c.differ(uuid, "telemetry", "nothing", "something")
		}
	}
}

func (c *comparison) measures(t driver.Telemetry, smi element) {
	all := map[[2]string]float64{}
	for _, v := range t.Values {
		all[[2]string{v.Name, v.LabelValue}] = v.Value
	}
	take := func(name, label string) (value float64, there bool) {
		value, there = all[[2]string{name, label}]
		delete(all, [2]string{name, label})
		return value, there
	}
	for _, m := range measures {
		ours, there := take(m.name, m.label)
		if theirs, ok := c.theirs(smi, m.paths...); ok {
			c.near(t.GPU, m.name+" "+m.label, ours/m.unit, there, theirs, m.bound)
		}
	}
	for reason, name := range reasons {
		ours, there := take("throttled", reason)
		text, ok := c.theirs(smi, "clocks_event_reasons/clocks_event_reason_"+name, "clocks_throttle_reasons/clocks_throttle_reason_"+name)
		if ok {
			c.equal(t.GPU, "throttled "+reason, optional(there, map[bool]string{true: "Active", false: "Not Active"}[ours == 1]), text)
		}
	}
	for name, since := range errorCounters {
		for kind := range eccNames {
			ours, there := take(name, kind)
			if theirs, ok := c.ecc(smi, since, kind); ok {
				c.near(t.GPU, name+" "+kind, ours, there, theirs, 0)
			}
		}
	}
	for left := range all {
		c.leave(left[0]+" "+left[1], "nvidia-smi is not asked for it")
	}
}

// near compares two numbers, either of which may not be there.
func (c *comparison) near(gpu, what string, ours float64, there bool, text string, bound float64) {
	c.compared++
	theirs, err := number(text)
	if there != (err == nil) || there && math.Abs(ours-theirs) > bound {
		c.differ(gpu, what, optional(there, fmt.Sprint(ours)), fmt.Sprintf("%q", text))
	}
}

//go:build cgo

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// What moves between two readings may differ by so much.
const (
	degrees   = 10
	watts     = 50
	mebibytes = 1024
)

// comparison collects what differs.
type comparison struct {
	compared    int
	differences []error
}

func (c *comparison) differ(gpu, field string, ours, theirs any) {
	c.differences = append(c.differences, fmt.Errorf("%s: %s: we say %v, nvidia-smi says %v", gpu, field, ours, theirs))
}

func (c *comparison) equal(gpu, field, ours, theirs string) {
	if c.compared++; ours != theirs {
		c.differ(gpu, field, strconv.Quote(ours), strconv.Quote(theirs))
	}
}

// field compares with nvidia-smi's field at the first of the paths that there is.
func (c *comparison) field(gpu element, ours string, translate func(string) string, paths ...string) {
	theirs, err := gpu.said(paths...)
	uuid, _ := gpu.at("uuid")
	if err != nil {
		c.differences = append(c.differences, fmt.Errorf("%s: %w", uuid, err))
		return
	}
	if theirs != "" && translate != nil {
		theirs = translate(theirs)
	}
	c.equal(uuid, paths[0], ours, theirs)
}

func (c *comparison) snapshot(ours driver.Snapshot, theirs report) {
	c.equal("driver", "driver_version", ours.DriverVersion, theirs.driver)
	c.equal("driver", "cuda_version", ours.CUDAVersion, theirs.cuda)
	c.equal("driver", "GPUs", strconv.Itoa(len(ours.GPUs)), strconv.Itoa(len(theirs.gpus)))
	for i := range min(len(ours.GPUs), len(theirs.gpus)) {
		g, smi := ours.GPUs[i], theirs.gpus[i] // both in the order of NVML's indexes
		if g.Err != nil {
			c.differ(g.UUID, "all", g.Err, "something")
			continue
		}
		c.gpu(g, smi)
		c.condition(g.Condition, smi)
		c.mig(g, smi)
	}
}

func (c *comparison) gpu(g driver.GPU, smi element) {
	c.field(smi, g.UUID, nil, "uuid")
	c.field(smi, g.PCIBusID, busID, "pci/pci_bus_id")
	c.field(smi, g.Name, nil, "product_name")
	c.field(smi, g.Architecture, func(s string) string { return strings.ToLower(strings.Fields(s)[0]) }, "product_architecture")
	c.field(smi, g.Serial, nil, "serial")
	c.field(smi, optional(g.Minor >= 0, g.Minor), nil, "minor_number")
	c.field(smi, optional(g.MemoryBytes > 0, g.MemoryBytes>>20), whole, "fb_memory_usage/total")
	c.field(smi, optional(g.PowerLimitWatts > 0, g.PowerLimitWatts), whole, "gpu_power_readings/requested_power_limit", "power_readings/power_limit")
	state, clique, cluster := "", "", ""
	if f := g.Fabric; f != nil {
		state, clique, cluster = f.State, fmt.Sprint(f.Clique), f.ClusterUUID
	}
	c.field(smi, state, dashed, "fabric/state")
	if state == "completed" {
		c.field(smi, clique, nil, "fabric/cliqueId")
		c.field(smi, cluster, nil, "fabric/clusterUuid")
	}
}

func (c *comparison) condition(k driver.Condition, smi element) {
	recovery := ""
	if k.Recovery != nil {
		recovery = map[driver.RecoveryAction]string{
			driver.RecoveryReset: "reset", driver.RecoveryNodeReboot: "reboot",
			driver.RecoveryDrainP2P: "drain-p2p", driver.RecoveryDrainAndReset: "drain-and-reset",
		}[*k.Recovery] // none is None, which absent takes for nothing
	}
	c.field(smi, recovery, dashed, "gpu_recovery_action")
	c.field(smi, yes(k.RemapPending), nil, "remapped_rows/remapped_row_pending")
	c.field(smi, yes(k.RemapFailed), nil, "remapped_rows/remapped_row_failure")
	c.field(smi, yes(k.RetiredPending), nil, "retired_pages/pending_retirement")
	const volatile = "ecc_errors/volatile/"
	counts := []string{"sram_uncorrectable_parity", "sram_uncorrectable_secded", "dram_uncorrectable"}
	if _, old := smi.at(volatile + "sram_uncorrectable"); old {
		counts = []string{"sram_uncorrectable", "dram_uncorrectable"}
	}
	sum, counted := 0.0, false
	for _, name := range counts {
		text, err := smi.said(volatile + name)
		if err != nil {
			c.differences = append(c.differences, err)
		}
		if n, err := number(text); err == nil {
			sum, counted = sum+n, true
		}
	}
	ours := ""
	if k.ECCUncorrected != nil {
		ours = fmt.Sprint(*k.ECCUncorrected)
	}
	uuid, _ := smi.at("uuid")
	c.equal(uuid, "ecc_errors/volatile, uncorrectable", ours, optional(counted, uint64(sum)))
}

func (c *comparison) mig(g driver.GPU, smi element) {
	mode := ""
	if g.MIGCapable {
		mode = map[bool]string{true: "Enabled", false: "Disabled"}[g.MIGEnabled]
	}
	c.field(smi, mode, nil, "mig_mode/current_mig")
	devices, ok := smi.find("mig_devices")
	if !ok {
		c.differ(g.UUID, "mig_devices", "something", "nothing")
	}
	var ours, theirs []string
	for _, i := range g.Instances {
		ours = append(ours, fmt.Sprintf("%d/%d", i.GPUInstance, i.ComputeInstance))
	}
	for _, device := range devices.Children {
		gi, err := device.said("gpu_instance_id")
		ci, err2 := device.said("compute_instance_id")
		if err != nil || err2 != nil {
			c.differ(g.UUID, "mig_devices", err, err2)
		}
		theirs = append(theirs, gi+"/"+ci)
	}
	c.equal(g.UUID, "mig_devices", strings.Join(ours, " "), strings.Join(theirs, " "))
}

// telemetry compares what moves, within bounds.
func (c *comparison) telemetry(ours []driver.Telemetry, theirs report) {
	for _, t := range ours {
		for _, smi := range theirs.gpus {
			if uuid, _ := smi.at("uuid"); uuid != t.GPU {
				continue
			}
			if t.Err != nil {
				c.differ(t.GPU, "telemetry", t.Err, "something")
			}
			c.near(t, smi, "temperature_celsius", 1, degrees, "temperature/gpu_temp")
			c.near(t, smi, "power_watts", 1, watts, "gpu_power_readings/instant_power_draw", "gpu_power_readings/power_draw", "power_readings/power_draw")
			c.near(t, smi, "memory_used_bytes", 1<<20, mebibytes, "fb_memory_usage/used")
		}
	}
}

func (c *comparison) near(t driver.Telemetry, smi element, name string, unit, bound float64, paths ...string) {
	text, err := smi.said(paths...)
	if err != nil {
		c.differences = append(c.differences, fmt.Errorf("%s: %w", t.GPU, err))
		return
	}
	c.compared++
	theirs, none := number(text)
	for _, v := range t.Values {
		if v.Name == name && (v.LabelValue == "" || v.LabelValue == "gpu") {
			if none != nil || math.Abs(v.Value/unit-theirs) > bound {
				c.differ(t.GPU, name, v.Value/unit, text)
			}
			return
		}
	}
	if none == nil {
		c.differ(t.GPU, name, "nothing", text)
	}
}

func optional[T any](there bool, value T) string {
	if !there {
		return ""
	}
	return fmt.Sprint(value)
}

func yes(b *bool) string {
	if b == nil {
		return ""
	}
	return map[bool]string{true: "Yes", false: "No"}[*b]
}

func dashed(text string) string { return strings.ReplaceAll(strings.ToLower(text), " ", "-") }

// whole is a number without its unit and what is behind the point.
func whole(text string) string {
	n, err := number(text)
	if err != nil {
		return text
	}
	return fmt.Sprint(uint64(n))
}

// busID is the bus ID as sysfs writes it.
func busID(text string) string {
	if at, err := pci.ParseAddress(text); err == nil {
		return at.String()
	}
	return text
}

//go:build cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/pci"
)

// comparison collects what differs, and what could not be compared.
type comparison struct {
	gpus        int
	compared    int
	differences []error
	// told are lines about what was seen, left out ones about what was not
	// compared, each once.
	told, leftOut []string
}

func (c *comparison) differ(gpu, field string, ours, theirs any) {
	c.differences = append(c.differences, fmt.Errorf("%s: %s: we say %v, nvidia-smi says %v", gpu, field, ours, theirs))
}

func (c *comparison) equal(gpu, field, ours, theirs string) {
	if c.compared++; ours != theirs {
		c.differ(gpu, field, strconv.Quote(ours), strconv.Quote(theirs))
	}
}

// leave says what is not compared, and why.
func (c *comparison) leave(what string, why any) {
	if line := fmt.Sprintf("%s: %v", what, why); !slices.Contains(c.leftOut, line) {
		c.leftOut = append(c.leftOut, line)
	}
}

func (c *comparison) tell(format string, args ...any) {
	c.told = append(c.told, fmt.Sprintf(format, args...))
}

func (c *comparison) add(other *comparison) {
	c.compared += other.compared
	c.differences = append(c.differences, other.differences...)
	c.told = append(c.told, other.told...)
	for _, line := range other.leftOut {
		if !slices.Contains(c.leftOut, line) {
			c.leftOut = append(c.leftOut, line)
		}
	}
}

func (c *comparison) lines() []string {
	lines := slices.Clone(c.told)
	for _, line := range c.leftOut {
		lines = append(lines, "NOT COMPARED: "+line)
	}
	return lines
}

// always are the fields that every nvidia-smi has: if one is not there, it was
// renamed, and this program must learn its name.
var always = []string{"uuid", "pci/pci_bus_id", "product_name", "minor_number", "serial", "fb_memory_usage/total"}

// theirs is what nvidia-smi says at the first of the paths that there is; ok is
// false where there is nothing to compare with.
func (c *comparison) theirs(gpu element, paths ...string) (text string, ok bool) {
	text, err := gpu.said(paths...)
	if err == nil {
		return text, true
	}
	if slices.Contains(always, paths[0]) {
		uuid, _ := gpu.at("uuid")
		c.differences = append(c.differences, fmt.Errorf("%s: %w", uuid, err))
	} else {
		c.leave(paths[0], err)
	}
	return "", false
}

// field compares with nvidia-smi's field at the first of the paths that there is.
func (c *comparison) field(gpu element, ours string, translate func(string) string, paths ...string) {
	theirs, ok := c.theirs(gpu, paths...)
	if !ok {
		return
	}
	if theirs != "" && translate != nil {
		theirs = translate(theirs)
	}
	uuid, _ := gpu.at("uuid")
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
	c.field(smi, g.Architecture, nil, "product_architecture")
	c.field(smi, g.Serial, nil, "serial")
	c.field(smi, optional(g.Minor >= 0, g.Minor), nil, "minor_number")
	c.field(smi, optional(g.MemoryBytes > 0, g.MemoryBytes>>20), whole, "fb_memory_usage/total")
	c.field(smi, optional(g.PowerLimitWatts > 0, g.PowerLimitWatts), whole, "gpu_power_readings/requested_power_limit",
		"gpu_power_readings/current_power_limit", "power_readings/power_limit")
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
	if theirs, ok := c.ecc(smi, "volatile", "uncorrected"); ok {
		ours := ""
		if k.ECCUncorrected != nil {
			ours = fmt.Sprint(*k.ECCUncorrected)
		}
		uuid, _ := smi.at("uuid")
		c.equal(uuid, "ecc_errors/volatile, uncorrected", ours, theirs)
	}
}

// eccNames are the counters of nvidia-smi that add up to one of NVML's: of GPUs
// from Turing on, with those of drivers that did not tell parity from SECDED, and of
// GPUs before it. The first set of which there is one counts.
var eccNames = map[string][][]string{
	"corrected": {{"sram_correctable", "dram_correctable"}, {"single_bit/total"}},
	"uncorrected": {
		{"sram_uncorrectable_parity", "sram_uncorrectable_secded", "sram_uncorrectable", "dram_uncorrectable"},
		{"double_bit/total"},
	},
}

// ecc is how many memory errors nvidia-smi counts, empty if it counts none on this
// GPU; ok is false where there is nothing to compare with.
func (c *comparison) ecc(smi element, since, kind string) (sum string, ok bool) {
	for _, names := range eccNames[kind] {
		total, known, counted := 0.0, 0, false
		for _, name := range names {
			text, err := smi.said("ecc_errors/" + since + "/" + name)
			if err != nil {
				continue
			}
			known++
			if n, err := number(text); err == nil {
				total, counted = total+n, true
			}
		}
		if known > 1 || known == len(names) {
			return optional(counted, uint64(total)), true
		}
	}
	c.leave("ecc_errors/"+since+", "+kind, errUnknownField)
	return "", false
}

func (c *comparison) mig(g driver.GPU, smi element) {
	mode, pending := "", ""
	if g.MIGCapable {
		words := map[bool]string{true: "Enabled", false: "Disabled"}
		mode, pending = words[g.MIGEnabled], words[g.MIGPending]
	}
	c.field(smi, mode, nil, "mig_mode/current_mig")
	c.field(smi, pending, nil, "mig_mode/pending_mig")
	devices, ok := smi.find("mig_devices")
	if !ok {
		c.leave("mig_devices", errUnknownField)
		return
	}
	var ours, theirs []string
	for _, i := range g.Instances {
		ours = append(ours, fmt.Sprintf("%d/%d", i.GPUInstance, i.ComputeInstance))
	}
	for _, device := range devices.Children {
		gi, err := device.said("gpu_instance_id")
		ci, err2 := device.said("compute_instance_id")
		if err := errors.Join(err, err2); err != nil {
			c.leave("mig_devices", err)
			return
		}
		theirs = append(theirs, gi+"/"+ci)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	c.equal(g.UUID, "mig_devices", strings.Join(ours, " "), strings.Join(theirs, " "))
}

// queried compares what is not in nvidia-smi's long answer.
func (c *comparison) queried(ctx context.Context, ours driver.Snapshot, smi tool) {
	const field = "compute_cap"
	if values, err := smi.query(ctx, field); err != nil {
		c.leave(field, err)
	} else {
		for _, g := range ours.GPUs {
			c.equal(g.UUID, field, optional(g.ComputeMajor > 0, fmt.Sprintf("%d.%d", g.ComputeMajor, g.ComputeMinor)), values[g.UUID])
		}
	}
	text, err := smi.says(ctx, "-L")
	if err != nil {
		c.leave("MIG profiles", err)
		return
	}
	profiles := parseList(text)
	for _, g := range ours.GPUs {
		for _, i := range g.Instances {
			c.equal(i.UUID, "MIG profile", i.Profile, profiles[i.UUID])
		}
	}
}

// parseList is the profile of each MIG device in what nvidia-smi -L says.
func parseList(text string) map[string]string {
	profiles := map[string]string{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		_, uuid, ok := strings.Cut(line, "(UUID: ")
		if ok && len(words) > 1 && words[0] == "MIG" {
			uuid, _, _ = strings.Cut(uuid, ")")
			profiles[uuid] = words[1]
		}
	}
	return profiles
}

// events registers for events, and tells which GPUs give some, and which none.
func (c *comparison) events(ctx context.Context, d *driver.Driver, ours driver.Snapshot) error {
	stream, err := d.Listen(ctx)
	if errors.Is(err, driver.ErrNotSupported) {
		c.tell("events: none: %v", err)
		return nil
	}
	if err != nil {
		return err
	}
	subscribed, unsubscribed := stream.Subscribed(), stream.Unsubscribed()
	for _, g := range ours.GPUs {
		why := unsubscribed[g.UUID]
		c.compared++
		switch {
		case why == nil && len(subscribed[g.UUID]) > 0:
			c.tell("events of %s: %s", g.UUID, words(subscribed[g.UUID]))
		case errors.Is(why, driver.ErrNotSupported):
			c.tell("events of %s: none, its health has to be asked for: %v", g.UUID, why)
		default:
			c.differences = append(c.differences, fmt.Errorf("%s: it should give events, and cannot be registered for any: %w", g.UUID, why))
		}
	}
	return nil
}

func words(types []driver.EventType) string {
	texts := make([]string, len(types))
	for i, t := range types {
		texts[i] = string(t)
	}
	return strings.Join(texts, ", ")
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

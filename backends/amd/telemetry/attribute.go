package telemetry

import (
	"encoding/binary"
	"fmt"
)

// Newer tables describe what is in them: after the header there is the number
// of attributes (32 bits), and each attribute is 64 bits that describe it, followed
// by its elements, without padding:
//
//	bits 24-31  unit        bits 10-19  which attribute
//	bits 20-23  type        bits  0-9   how many elements
const (
	attributesAt  = headerSize + 4
	describedBy   = 8
	maxAttributes = 1024
)

// attributes are the attributes by number (enum amdgpu_metrics_attr_id), by the
// names that they have as fields of older tables. Numbers above these are not the
// same in all kernels yet.
var attributes = [...]string{
	0: "temperature_hotspot", 1: "temperature_mem", 2: "temperature_vrsoc", 3: "curr_socket_power",
	4: "average_gfx_activity", 5: "average_umc_activity", 7: "energy_accumulator", 9: "accumulation_counter",
	10: "prochot_residency_acc", 11: "ppt_residency_acc", 12: "socket_thm_residency_acc", 13: "vr_thm_residency_acc",
	14: "hbm_thm_residency_acc", 16: "pcie_link_width", 17: "pcie_link_speed", 24: "pcie_l0_to_recov_count_acc",
	25: "pcie_replay_count_acc", 27: "pcie_nak_sent_count_acc", 28: "pcie_nak_rcvd_count_acc", 33: "current_gfxclk",
	34: "current_socclk", 35: "current_vclk0", 36: "current_dclk0", 37: "current_uclk", 40: "gfx_busy_inst",
	41: "jpeg_busy", 42: "vcn_busy",
}

// widths are the types by number (enum amdgpu_metrics_attr_type): u8, s8, u16 … Odd
// ones are signed.
var widths = [...]int{1, 1, 2, 2, 4, 4, 8, 8}

// units are the numbers (enum amdgpu_metrics_attr_unit) of the units that the
// quantities count on; 0, no unit, for all others.
var units = map[string]uint64{
	"clock_hertz": 1, "temperature_celsius": 2, "power_watts": 3, "pcie_link_transfers_per_second": 7,
	"utilization_ratio": 10, "memory_utilization_ratio": 10, "engine_utilization_ratio": 10,
}

// described returns the values of a table that describes itself, in its order.
func (d *decoder) described(means map[string]quantity) []Value {
	if len(d.table) < attributesAt {
		d.fail("it is cut off after %d bytes", len(d.table))
		return nil
	}
	count := binary.NativeEndian.Uint32(d.table[headerSize:])
	if count > maxAttributes {
		d.fail("it has %d attributes by its header", count)
		return nil
	}
	var all []Value
	rest := d.table[attributesAt:]
	for range count {
		if len(rest) < describedBy {
			d.fail("it is cut off after %d bytes", len(d.table))
			return all
		}
		about := binary.NativeEndian.Uint64(rest)
		kind := about >> 20 & 0xf
		if about>>32 != 0 || kind >= uint64(len(widths)) {
			d.fail("it has an attribute %#x, which cannot be", about)
			return all
		}
		name, f := "", field{width: widths[kind], count: int(about & 0x3ff), offset: len(d.table) - len(rest) + describedBy}
		end := describedBy + f.width*f.count
		if end > len(rest) {
			d.fail("it is cut off after %d bytes", len(d.table))
			return all
		}
		rest = rest[end:]
		if id := about >> 10 & 0x3ff; id < uint64(len(attributes)) {
			name = attributes[id]
		}
		if q, ok := means[name]; ok {
			all = d.attribute(all, name, q, f, about>>24, kind%2 == 1)
		}
	}
	return all
}

// attribute appends the values of one attribute, if its unit is the one that is
// counted on.
func (d *decoder) attribute(all []Value, name string, q quantity, f field, unit uint64, signed bool) []Value {
	if unit != units[q.name] {
		d.fail("%s is in unit %d, want %d", name, unit, units[q.name])
		return all
	}
	found := d.numbers(f, 0)
	for i, n := range found {
		if signed && n>>(8*f.width-1) != 0 {
			d.fail("%s is negative, which cannot be", name)
			delete(found, i)
		}
	}
	return d.measure(all, name, q, found)
}

func (d *decoder) fail(format string, args ...any) {
	d.wrong = append(d.wrong, fmt.Errorf(format, args...))
}

package telemetry

import "cmp"

// Value is one number that was measured.
type Value struct {
	Name string
	// Counter: the value only grows, until the driver is loaded again.
	Counter bool
	Value   float64
	// Label and LabelValue distinguish values of one name; empty if there is only one.
	Label, LabelValue string
}

// quantity is what a field of the table measures.
type quantity struct {
	name         string
	label, value string
	// Multiplied by scale and divided by per, which are 1 if left out, the number is
	// in base units.
	scale, per float64
	// most is the largest value, in base units, that can be; 0 for no bound.
	most    float64
	counter bool
	// each: the elements of an array are values of their own, and not instances of one thing,
	// of which the mean is taken.
	each bool
	// reasons: the field is a set of reasons for throttling, by bit; without names any bit is
	// one.
	reasons map[int]string
}

// energyTicks is how often a data-centre card counts for each joule: 15.259 µJ.
const energyTicks = 1 << 16

// base returns a field's number in base units.
func (q quantity) base(n float64) float64 {
	return n * cmp.Or(q.scale, 1) / cmp.Or(q.per, 1)
}

func celsius(sensor string, per float64) quantity {
	return quantity{name: "temperature_celsius", label: "sensor", value: sensor, per: per, most: 400}
}

func watts(per float64) quantity { return quantity{name: "power_watts", per: per, most: 10_000} }

func hertz(clock string) quantity {
	return quantity{name: "clock_hertz", label: "clock", value: clock, scale: 1e6, most: 20e9}
}

func busy(name string, per float64) quantity { return quantity{name: name, per: per, most: 1} }

func engine(name string) quantity {
	return quantity{name: "engine_utilization_ratio", label: "engine", value: name, per: 100, most: 1}
}

func volts(rail string) quantity {
	return quantity{name: "voltage_volts", label: "rail", value: rail, per: 1000, most: 60}
}

func counted(name, label, value string) quantity {
	return quantity{name: name, label: label, value: value, counter: true}
}

func throttled(reasons map[int]string) quantity {
	return quantity{name: "throttled", label: "reason", reasons: reasons}
}

// reasons are the bits of indep_throttle_status (SMU_THROTTLER_… in
// drivers/gpu/drm/amd/pm/swsmu/inc/amdgpu_smu.h).
var reasons = map[int]string{
	0: "ppt0", 1: "ppt1", 2: "ppt2", 3: "ppt3", 4: "spl", 5: "fppt", 6: "sppt", 7: "sppt-apu",
	16: "tdc-gfx", 17: "tdc-soc", 18: "tdc-memory", 19: "tdc-vdd", 20: "tdc-cvip", 21: "edc-cpu", 22: "edc-gfx", 23: "apcc",
	32: "temperature-gpu", 33: "temperature-core", 34: "temperature-memory", 35: "temperature-edge",
	36: "temperature-hotspot", 37: "temperature-soc", 38: "temperature-vr-gfx", 39: "temperature-vr-soc",
	40: "temperature-vr-memory0", 41: "temperature-vr-memory1", 42: "temperature-liquid0", 43: "temperature-liquid1",
	44: "vrhot0", 45: "vrhot1", 46: "prochot-cpu", 47: "prochot-gfx", 56: "ppm", 57: "fit",
}

// both joins meanings; later ones overrule.
func both(all ...map[string]quantity) map[string]quantity {
	joined := map[string]quantity{}
	for _, means := range all {
		for name, q := range means {
			joined[name] = q
		}
	}
	return joined
}

var (
	// everywhere are fields that mean the same in all formats.
	everywhere = map[string]quantity{
		"current_gfxclk":        hertz("gfx"),
		"current_socclk":        hertz("soc"),
		"current_uclk":          hertz("memory"),
		"indep_throttle_status": throttled(reasons),
	}
	// discrete are fields of cards.
	discrete = both(everywhere, map[string]quantity{
		"temperature_hotspot":  celsius("hotspot", 1),
		"temperature_mem":      celsius("memory", 1),
		"temperature_vrsoc":    celsius("vr-soc", 1),
		"average_gfx_activity": busy("utilization_ratio", 100),
		"average_umc_activity": busy("memory_utilization_ratio", 100),
		"current_vclk0":        hertz("video"),
		"current_dclk0":        hertz("decode"),
		"pcie_link_width":      {name: "pcie_link_lanes", most: 32},
		"pcie_link_speed":      {name: "pcie_link_transfers_per_second", scale: 1e8, most: 1e12},
	})
	// card is revisions 1.0 to 1.3: all cards before MI300, and those for desktops. The
	// unit of energy_accumulator depends on the card there.
	card = both(discrete, map[string]quantity{
		"temperature_edge":     celsius("edge", 1),
		"temperature_vrgfx":    celsius("vr-gfx", 1),
		"temperature_vrmem":    celsius("vr-memory", 1),
		"temperature_hbm":      {name: "temperature_celsius", label: "sensor", value: "hbm", most: 400, each: true},
		"average_mm_activity":  engine("media"),
		"average_socket_power": watts(1),
		"current_fan_speed":    rotations,
		"voltage_soc":          volts("soc"),
		"voltage_gfx":          volts("gfx"),
		"voltage_mem":          volts("memory"),
		"throttle_status":      throttled(nil),
	})
	// dataCentre is revisions 1.4 and later. Drivers leave throttle_status at 0 there,
	// whatever happens, so it is not read; how long a card was slowed down is in the
	// residencies, in cycles of accumulation_counter.
	dataCentre = both(discrete, map[string]quantity{
		"curr_socket_power":          watts(1),
		"vcn_activity":               engine("video"),
		"jpeg_activity":              engine("jpeg"),
		"energy_accumulator":         joules,
		"accumulation_counter":       counted("accumulation_cycles_total", "", ""),
		"prochot_residency_acc":      counted("throttled_cycles_total", "reason", "prochot"),
		"ppt_residency_acc":          counted("throttled_cycles_total", "reason", "power"),
		"socket_thm_residency_acc":   counted("throttled_cycles_total", "reason", "temperature-socket"),
		"vr_thm_residency_acc":       counted("throttled_cycles_total", "reason", "temperature-vr"),
		"hbm_thm_residency_acc":      counted("throttled_cycles_total", "reason", "temperature-hbm"),
		"pcie_l0_to_recov_count_acc": counted("pcie_recoveries_total", "", ""),
		"pcie_replay_count_acc":      counted("pcie_replays_total", "", ""),
		"pcie_nak_sent_count_acc":    counted("pcie_naks_total", "direction", "sent"),
		"pcie_nak_rcvd_count_acc":    counted("pcie_naks_total", "direction", "received"),
	})
	rotations = quantity{name: "fan_rotations_per_second", per: 60, most: 1000}
	joules    = quantity{name: "energy_joules_total", per: energyTicks, counter: true}
	// partitionMeans are the fields of one partition of a card.
	partitionMeans = map[string]quantity{
		"gfx_busy_inst": busy("utilization_ratio", 100),
		"jpeg_busy":     engine("jpeg"),
		"vcn_busy":      engine("video"),
	}
	// enginesInUse are the engines of a whole card where partitions have a file of
	// their own.
	enginesInUse = map[string]quantity{"jpeg_busy": engine("jpeg"), "vcn_busy": engine("video")}
	// partitionFile is all that the file of a partition has.
	partitionFile = both(partitionMeans, map[string]quantity{
		"current_gfxclk": hertz("gfx"), "current_socclk": hertz("soc"), "current_uclk": hertz("memory"),
		"current_vclk0": hertz("video"), "current_dclk0": hertz("decode"),
	})
	// apu is revisions 2.0 to 2.3. Power is in watts or milliwatts there, depending on
	// the firmware, and the table does not report which: hwmon has it. The same holds for what is
	// busy.
	apu = both(everywhere, map[string]quantity{
		"temperature_gfx": celsius("edge", 100),
		"temperature_soc": celsius("soc", 100),
		"current_fclk":    hertz("fabric"),
		"current_vclk":    hertz("video"),
		"current_dclk":    hertz("decode"),
		"throttle_status": throttled(nil),
	})
	apuInMilliwatts = both(apu, map[string]quantity{
		"average_gfx_activity": busy("utilization_ratio", 10_000),
		"average_socket_power": watts(1000),
	})
	// apuAverages is revision 3.0, whose use of the GPU is in per cent or in hundredths
	// of it, depending on the firmware.
	apuAverages = map[string]quantity{
		"temperature_gfx":          celsius("edge", 100),
		"temperature_soc":          celsius("soc", 100),
		"temperature_skin":         celsius("skin", 100),
		"average_socket_power":     watts(1000),
		"average_gfxclk_frequency": hertz("gfx"),
		"average_socclk_frequency": hertz("soc"),
		"average_uclk_frequency":   hertz("memory"),
		"average_fclk_frequency":   hertz("fabric"),
		"average_vclk_frequency":   hertz("video"),
	}
)

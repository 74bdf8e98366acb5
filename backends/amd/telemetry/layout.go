package telemetry

import "slices"

// headerSize is that of metrics_table_header: u16 size, u8 format, u8 content.
const headerSize = 4

// revision is the format and content revision in a table's header.
type revision struct{ format, content uint8 }

// field is count numbers of width bytes each, or count tables.
type field struct {
	name         string
	width, count int
	table        []field // what each of the count elements is made of, if not a number
	// offset is where it begins; arrange sets it.
	offset int
}

// layout is where the fields of one revision are, and what they mean. Without
// fields, the table describes itself.
type layout struct {
	fields []field
	size   int
	means  map[string]quantity
}

func u8(names ...string) []field  { return numbers(1, names) }
func u16(names ...string) []field { return numbers(2, names) }
func u32(names ...string) []field { return numbers(4, names) }
func u64(names ...string) []field { return numbers(8, names) }

func numbers(width int, names []string) []field {
	var fields []field
	for _, name := range names {
		fields = append(fields, field{name: name, width: width, count: 1})
	}
	return fields
}

// times makes arrays of n out of fields.
func times(n int, fields []field) []field {
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].count = n
	}
	return fields
}

// tables returns an array of n tables.
func tables(n int, name string, of []field) []field {
	laid, size := arrange(of)
	return []field{{name: name, width: size, count: n, table: laid}}
}

func join(parts ...[]field) []field { return slices.Concat(parts...) }

// arrange places fields one after the other, each at a multiple of its alignment,
// as the C ABI of the machines does that amdgpu runs on (64 bits).
func arrange(fields []field) ([]field, int) {
	fields = slices.Clone(fields)
	end, most := 0, 1
	for i, f := range fields {
		to := alignment(f)
		end = (end + to - 1) / to * to
		fields[i].offset = end
		end += f.width * f.count
		most = max(most, to)
	}
	return fields, (end + most - 1) / most * most
}

func alignment(f field) int {
	if f.table == nil {
		return f.width
	}
	most := 1
	for _, inner := range f.table {
		most = max(most, alignment(inner))
	}
	return most
}

var header = join(u16("structure_size"), u8("format_revision", "content_revision"))

// The parts that revisions have in common.
var (
	cardHeat = u16("temperature_edge", "temperature_hotspot", "temperature_mem",
		"temperature_vrgfx", "temperature_vrsoc", "temperature_vrmem",
		"average_gfx_activity", "average_umc_activity", "average_mm_activity", "average_socket_power")
	cardClocks = join(
		u16("average_gfxclk_frequency", "average_socclk_frequency", "average_uclk_frequency",
			"average_vclk0_frequency", "average_dclk0_frequency", "average_vclk1_frequency", "average_dclk1_frequency",
			"current_gfxclk", "current_socclk", "current_uclk",
			"current_vclk0", "current_dclk0", "current_vclk1", "current_dclk1"),
		u32("throttle_status"), u16("current_fan_speed"))

	v10 = join(header, u64("system_clock_counter"), cardHeat, u32("energy_accumulator"), cardClocks,
		u8("pcie_link_width", "pcie_link_speed"))
	v11 = join(header, cardHeat, u64("energy_accumulator", "system_clock_counter"), cardClocks,
		u16("pcie_link_width", "pcie_link_speed", "padding"), u32("gfx_activity_acc", "mem_activity_acc"),
		times(4, u16("temperature_hbm")))
	v12 = join(v11, u64("firmware_timestamp"))
	v13 = join(v12, u16("voltage_soc", "voltage_gfx", "voltage_mem", "padding1"), u64("indep_throttle_status"))

	// Data-centre cards since MI300.
	socket = join(header, u16("temperature_hotspot", "temperature_mem", "temperature_vrsoc",
		"curr_socket_power", "average_gfx_activity", "average_umc_activity"))
	energy = u64("energy_accumulator", "system_clock_counter")
	status = u32("throttle_status", "gfxclk_lock_status")
	cycles = u32("accumulation_counter", "prochot_residency_acc", "ppt_residency_acc", "socket_thm_residency_acc",
		"vr_thm_residency_acc", "hbm_thm_residency_acc", "gfxclk_lock_status")
	buses = join(u16("pcie_link_width", "pcie_link_speed", "xgmi_link_width", "xgmi_link_speed"),
		u32("gfx_activity_acc", "mem_activity_acc"),
		u64("pcie_bandwidth_acc", "pcie_bandwidth_inst", "pcie_l0_to_recov_count_acc",
			"pcie_replay_count_acc", "pcie_replay_rover_count_acc"))
	naks   = u32("pcie_nak_sent_count_acc", "pcie_nak_rcvd_count_acc")
	links  = times(8, u64("xgmi_read_data_acc", "xgmi_write_data_acc"))
	up     = join(times(8, u16("xgmi_link_status")), u16("padding"))
	clocks = join(u64("firmware_timestamp"), times(8, u16("current_gfxclk")),
		times(4, u16("current_socclk", "current_vclk0", "current_dclk0")), u16("current_uclk"))
	partition = func(jpegs int) []field {
		return join(times(8, u32("gfx_busy_inst")), times(jpegs, u16("jpeg_busy")), times(4, u16("vcn_busy")),
			times(8, u64("gfx_busy_acc")))
	}
	partition10 = partition(32)
	partition11 = join(partition(32), times(8, u64("gfx_below_host_limit_acc")))
	partition12 = join(partition(40), times(8, u64("gfx_below_host_limit_ppt_acc", "gfx_below_host_limit_thm_acc",
		"gfx_low_utilization_acc", "gfx_below_host_limit_total_acc")))
	partitions = func(of []field) []field {
		return join(u16("num_partition"), tables(8, "xcp_stats", of), u32("pcie_lc_perf_other_end_recovery"))
	}

	partitionTable = join(header, times(8, u16("current_gfxclk")), times(4, u16("current_socclk", "current_vclk0", "current_dclk0")),
		u16("current_uclk", "padding"), partition12)

	v14 = join(socket, times(4, u16("vcn_activity")), energy, status, buses, links, clocks, u16("padding"))
	v15 = join(socket, times(4, u16("vcn_activity")), times(32, u16("jpeg_activity")), energy, status, buses, naks,
		links, clocks, u16("padding"))
	v16 = join(socket, energy, cycles, buses, naks, links, clocks, partitions(partition10))
	v17 = join(socket, u64("mem_max_bandwidth"), energy, cycles, buses, naks, links, up, clocks, partitions(partition11))
	v18 = join(socket, u64("mem_max_bandwidth"), energy, cycles, buses, naks, links, up, clocks, partitions(partition12))

	// APUs.
	apuHeat = join(u16("temperature_gfx", "temperature_soc"), times(8, u16("temperature_core")),
		times(2, u16("temperature_l3")), u16("average_gfx_activity", "average_mm_activity"))
	apuRest = join(u16("average_socket_power", "average_cpu_power", "average_soc_power", "average_gfx_power"),
		times(8, u16("average_core_power")),
		u16("average_gfxclk_frequency", "average_socclk_frequency", "average_uclk_frequency",
			"average_fclk_frequency", "average_vclk_frequency", "average_dclk_frequency",
			"current_gfxclk", "current_socclk", "current_uclk", "current_fclk", "current_vclk", "current_dclk"),
		times(8, u16("current_coreclk")), times(2, u16("current_l3clk")), u32("throttle_status"), u16("fan_pwm"))

	v20 = join(header, u64("system_clock_counter"), apuHeat, apuRest, u16("padding"))
	v21 = join(header, apuHeat, u64("system_clock_counter"), apuRest, times(3, u16("padding")))
	v22 = join(v21, u64("indep_throttle_status"))
	v23 = join(v22, u16("average_temperature_gfx", "average_temperature_soc"),
		times(8, u16("average_temperature_core")), times(2, u16("average_temperature_l3")))
	v24 = join(v23, u16("average_cpu_voltage", "average_soc_voltage", "average_gfx_voltage",
		"average_cpu_current", "average_soc_current", "average_gfx_current"))

	v30 = join(header, u16("temperature_gfx", "temperature_soc"), times(16, u16("temperature_core")),
		u16("temperature_skin", "average_gfx_activity", "average_vcn_activity"), times(8, u16("average_ipu_activity")),
		times(16, u16("average_core_c0_activity")),
		u16("average_dram_reads", "average_dram_writes", "average_ipu_reads", "average_ipu_writes"),
		u64("system_clock_counter"), u32("average_socket_power"), u16("average_ipu_power"),
		u32("average_apu_power", "average_gfx_power", "average_dgpu_power", "average_all_core_power"),
		times(16, u16("average_core_power")), u16("average_sys_power", "stapm_power_limit", "current_stapm_power_limit",
			"average_gfxclk_frequency", "average_socclk_frequency", "average_vpeclk_frequency", "average_ipuclk_frequency",
			"average_fclk_frequency", "average_vclk_frequency", "average_uclk_frequency", "average_mpipu_frequency"),
		times(16, u16("current_coreclk")), u16("current_core_maxfreq", "current_gfx_maxfreq"),
		u32("throttle_residency_prochot", "throttle_residency_spl", "throttle_residency_fppt", "throttle_residency_sppt",
			"throttle_residency_thm_core", "throttle_residency_thm_gfx", "throttle_residency_thm_soc",
			"time_filter_alphavalue"))
)

// layouts are the revisions that are known.
var layouts = map[revision]layout{
	{1, 0}: lay(v10, card), {1, 1}: lay(v11, card), {1, 2}: lay(v12, card), {1, 3}: lay(v13, card),
	{1, 4}: lay(v14, dataCentre), {1, 5}: lay(v15, dataCentre), {1, 6}: lay(v16, dataCentre),
	{1, 7}: lay(v17, dataCentre), {1, 8}: lay(v18, dataCentre),
	{2, 0}: lay(v20, apu), {2, 1}: lay(v21, apu), {2, 2}: lay(v22, apu), {2, 3}: lay(v23, apu),
	{2, 4}: lay(v24, apuInMilliwatts), {3, 0}: lay(v30, apuAverages),
	{1, 9}: {size: attributesAt, means: both(dataCentre, enginesInUse)},
}

// partitionLayouts are the revisions of xcp_metrics that are known
// (amdgpu_partition_metrics).
var partitionLayouts = map[revision]layout{
	{1, 0}: lay(partitionTable, partitionFile),
	{1, 1}: {size: attributesAt, means: partitionFile},
}

func lay(fields []field, means map[string]quantity) layout {
	laid, size := arrange(fields)
	return layout{fields: laid, size: size, means: means}
}

/*
 * Prints where the fields of each gpu_metrics table are, as a C compiler lays them
 * out: "version field offset width count". The fields, their order and types are
 * the ABI of Linux, drivers/gpu/drm/amd/include/kgd_pp_interface.h (7.0). Written
 * apart from layout.go on purpose; TestLayout compares the two.
 *
 *	cc -o layout layout.c && ./layout > layout.txt
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* Each struct is a list X(type, name, count). */
#define HEADER(X) X(u16, structure_size, 1) X(u8, format_revision, 1) X(u8, content_revision, 1)

#define V1_0(X) HEADER(X) X(u64, system_clock_counter, 1) \
	X(u16, temperature_edge, 1) X(u16, temperature_hotspot, 1) X(u16, temperature_mem, 1) \
	X(u16, temperature_vrgfx, 1) X(u16, temperature_vrsoc, 1) X(u16, temperature_vrmem, 1) \
	X(u16, average_gfx_activity, 1) X(u16, average_umc_activity, 1) X(u16, average_mm_activity, 1) \
	X(u16, average_socket_power, 1) X(u32, energy_accumulator, 1) \
	X(u16, average_gfxclk_frequency, 1) X(u16, average_socclk_frequency, 1) X(u16, average_uclk_frequency, 1) \
	X(u16, average_vclk0_frequency, 1) X(u16, average_dclk0_frequency, 1) \
	X(u16, average_vclk1_frequency, 1) X(u16, average_dclk1_frequency, 1) \
	X(u16, current_gfxclk, 1) X(u16, current_socclk, 1) X(u16, current_uclk, 1) \
	X(u16, current_vclk0, 1) X(u16, current_dclk0, 1) X(u16, current_vclk1, 1) X(u16, current_dclk1, 1) \
	X(u32, throttle_status, 1) X(u16, current_fan_speed, 1) X(u8, pcie_link_width, 1) X(u8, pcie_link_speed, 1)

#define V1_1(X) HEADER(X) \
	X(u16, temperature_edge, 1) X(u16, temperature_hotspot, 1) X(u16, temperature_mem, 1) \
	X(u16, temperature_vrgfx, 1) X(u16, temperature_vrsoc, 1) X(u16, temperature_vrmem, 1) \
	X(u16, average_gfx_activity, 1) X(u16, average_umc_activity, 1) X(u16, average_mm_activity, 1) \
	X(u16, average_socket_power, 1) X(u64, energy_accumulator, 1) X(u64, system_clock_counter, 1) \
	X(u16, average_gfxclk_frequency, 1) X(u16, average_socclk_frequency, 1) X(u16, average_uclk_frequency, 1) \
	X(u16, average_vclk0_frequency, 1) X(u16, average_dclk0_frequency, 1) \
	X(u16, average_vclk1_frequency, 1) X(u16, average_dclk1_frequency, 1) \
	X(u16, current_gfxclk, 1) X(u16, current_socclk, 1) X(u16, current_uclk, 1) \
	X(u16, current_vclk0, 1) X(u16, current_dclk0, 1) X(u16, current_vclk1, 1) X(u16, current_dclk1, 1) \
	X(u32, throttle_status, 1) X(u16, current_fan_speed, 1) X(u16, pcie_link_width, 1) X(u16, pcie_link_speed, 1) \
	X(u16, padding, 1) X(u32, gfx_activity_acc, 1) X(u32, mem_activity_acc, 1) X(u16, temperature_hbm, 4)

#define V1_2(X) V1_1(X) X(u64, firmware_timestamp, 1)

#define V1_3(X) V1_2(X) X(u16, voltage_soc, 1) X(u16, voltage_gfx, 1) X(u16, voltage_mem, 1) \
	X(u16, padding1, 1) X(u64, indep_throttle_status, 1)

#define V1_4(X) HEADER(X) \
	X(u16, temperature_hotspot, 1) X(u16, temperature_mem, 1) X(u16, temperature_vrsoc, 1) \
	X(u16, curr_socket_power, 1) X(u16, average_gfx_activity, 1) X(u16, average_umc_activity, 1) \
	X(u16, vcn_activity, 4) X(u64, energy_accumulator, 1) X(u64, system_clock_counter, 1) \
	X(u32, throttle_status, 1) X(u32, gfxclk_lock_status, 1) \
	X(u16, pcie_link_width, 1) X(u16, pcie_link_speed, 1) X(u16, xgmi_link_width, 1) X(u16, xgmi_link_speed, 1) \
	X(u32, gfx_activity_acc, 1) X(u32, mem_activity_acc, 1) \
	X(u64, pcie_bandwidth_acc, 1) X(u64, pcie_bandwidth_inst, 1) X(u64, pcie_l0_to_recov_count_acc, 1) \
	X(u64, pcie_replay_count_acc, 1) X(u64, pcie_replay_rover_count_acc, 1) \
	X(u64, xgmi_read_data_acc, 8) X(u64, xgmi_write_data_acc, 8) X(u64, firmware_timestamp, 1) \
	X(u16, current_gfxclk, 8) X(u16, current_socclk, 4) X(u16, current_vclk0, 4) X(u16, current_dclk0, 4) \
	X(u16, current_uclk, 1) X(u16, padding, 1)

#define V1_5(X) HEADER(X) \
	X(u16, temperature_hotspot, 1) X(u16, temperature_mem, 1) X(u16, temperature_vrsoc, 1) \
	X(u16, curr_socket_power, 1) X(u16, average_gfx_activity, 1) X(u16, average_umc_activity, 1) \
	X(u16, vcn_activity, 4) X(u16, jpeg_activity, 32) X(u64, energy_accumulator, 1) X(u64, system_clock_counter, 1) \
	X(u32, throttle_status, 1) X(u32, gfxclk_lock_status, 1) \
	X(u16, pcie_link_width, 1) X(u16, pcie_link_speed, 1) X(u16, xgmi_link_width, 1) X(u16, xgmi_link_speed, 1) \
	X(u32, gfx_activity_acc, 1) X(u32, mem_activity_acc, 1) \
	X(u64, pcie_bandwidth_acc, 1) X(u64, pcie_bandwidth_inst, 1) X(u64, pcie_l0_to_recov_count_acc, 1) \
	X(u64, pcie_replay_count_acc, 1) X(u64, pcie_replay_rover_count_acc, 1) \
	X(u32, pcie_nak_sent_count_acc, 1) X(u32, pcie_nak_rcvd_count_acc, 1) \
	X(u64, xgmi_read_data_acc, 8) X(u64, xgmi_write_data_acc, 8) X(u64, firmware_timestamp, 1) \
	X(u16, current_gfxclk, 8) X(u16, current_socclk, 4) X(u16, current_vclk0, 4) X(u16, current_dclk0, 4) \
	X(u16, current_uclk, 1) X(u16, padding, 1)

/* From energy to the NAKs, the same in 1.6, 1.7 and 1.8. */
#define RESIDENCY(X) X(u64, energy_accumulator, 1) X(u64, system_clock_counter, 1) \
	X(u32, accumulation_counter, 1) X(u32, prochot_residency_acc, 1) X(u32, ppt_residency_acc, 1) \
	X(u32, socket_thm_residency_acc, 1) X(u32, vr_thm_residency_acc, 1) X(u32, hbm_thm_residency_acc, 1) \
	X(u32, gfxclk_lock_status, 1) \
	X(u16, pcie_link_width, 1) X(u16, pcie_link_speed, 1) X(u16, xgmi_link_width, 1) X(u16, xgmi_link_speed, 1) \
	X(u32, gfx_activity_acc, 1) X(u32, mem_activity_acc, 1) \
	X(u64, pcie_bandwidth_acc, 1) X(u64, pcie_bandwidth_inst, 1) X(u64, pcie_l0_to_recov_count_acc, 1) \
	X(u64, pcie_replay_count_acc, 1) X(u64, pcie_replay_rover_count_acc, 1) \
	X(u32, pcie_nak_sent_count_acc, 1) X(u32, pcie_nak_rcvd_count_acc, 1) \
	X(u64, xgmi_read_data_acc, 8) X(u64, xgmi_write_data_acc, 8)

#define SOCKET(X) \
	X(u16, temperature_hotspot, 1) X(u16, temperature_mem, 1) X(u16, temperature_vrsoc, 1) \
	X(u16, curr_socket_power, 1) X(u16, average_gfx_activity, 1) X(u16, average_umc_activity, 1)

#define CLOCKS(X) X(u64, firmware_timestamp, 1) \
	X(u16, current_gfxclk, 8) X(u16, current_socclk, 4) X(u16, current_vclk0, 4) X(u16, current_dclk0, 4) \
	X(u16, current_uclk, 1) X(u16, num_partition, 1)

#define XCP_1_0(X) X(u32, gfx_busy_inst, 8) X(u16, jpeg_busy, 32) X(u16, vcn_busy, 4) X(u64, gfx_busy_acc, 8)
#define XCP_1_1(X) XCP_1_0(X) X(u64, gfx_below_host_limit_acc, 8)
#define XCP_1_2(X) X(u32, gfx_busy_inst, 8) X(u16, jpeg_busy, 40) X(u16, vcn_busy, 4) X(u64, gfx_busy_acc, 8) \
	X(u64, gfx_below_host_limit_ppt_acc, 8) X(u64, gfx_below_host_limit_thm_acc, 8) \
	X(u64, gfx_low_utilization_acc, 8) X(u64, gfx_below_host_limit_total_acc, 8)

#define V1_6(X) HEADER(X) SOCKET(X) RESIDENCY(X) CLOCKS(X) \
	X(struct xcp_1_0, xcp_stats, 8) X(u32, pcie_lc_perf_other_end_recovery, 1)
#define V1_7(X) HEADER(X) SOCKET(X) X(u64, mem_max_bandwidth, 1) RESIDENCY(X) \
	X(u16, xgmi_link_status, 8) X(u16, padding, 1) CLOCKS(X) \
	X(struct xcp_1_1, xcp_stats, 8) X(u32, pcie_lc_perf_other_end_recovery, 1)
#define V1_8(X) HEADER(X) SOCKET(X) X(u64, mem_max_bandwidth, 1) RESIDENCY(X) \
	X(u16, xgmi_link_status, 8) X(u16, padding, 1) CLOCKS(X) \
	X(struct xcp_1_2, xcp_stats, 8) X(u32, pcie_lc_perf_other_end_recovery, 1)

#define APU_HEAT(X) X(u16, temperature_gfx, 1) X(u16, temperature_soc, 1) X(u16, temperature_core, 8) \
	X(u16, temperature_l3, 2) X(u16, average_gfx_activity, 1) X(u16, average_mm_activity, 1)
#define APU_REST(X) \
	X(u16, average_socket_power, 1) X(u16, average_cpu_power, 1) X(u16, average_soc_power, 1) \
	X(u16, average_gfx_power, 1) X(u16, average_core_power, 8) \
	X(u16, average_gfxclk_frequency, 1) X(u16, average_socclk_frequency, 1) X(u16, average_uclk_frequency, 1) \
	X(u16, average_fclk_frequency, 1) X(u16, average_vclk_frequency, 1) X(u16, average_dclk_frequency, 1) \
	X(u16, current_gfxclk, 1) X(u16, current_socclk, 1) X(u16, current_uclk, 1) X(u16, current_fclk, 1) \
	X(u16, current_vclk, 1) X(u16, current_dclk, 1) X(u16, current_coreclk, 8) X(u16, current_l3clk, 2) \
	X(u32, throttle_status, 1) X(u16, fan_pwm, 1)

#define V2_0(X) HEADER(X) X(u64, system_clock_counter, 1) APU_HEAT(X) APU_REST(X) X(u16, padding, 1)
#define V2_1(X) HEADER(X) APU_HEAT(X) X(u64, system_clock_counter, 1) APU_REST(X) X(u16, padding, 3)
#define V2_2(X) V2_1(X) X(u64, indep_throttle_status, 1)
#define V2_3(X) V2_2(X) X(u16, average_temperature_gfx, 1) X(u16, average_temperature_soc, 1) \
	X(u16, average_temperature_core, 8) X(u16, average_temperature_l3, 2)
#define V2_4(X) V2_3(X) X(u16, average_cpu_voltage, 1) X(u16, average_soc_voltage, 1) \
	X(u16, average_gfx_voltage, 1) X(u16, average_cpu_current, 1) X(u16, average_soc_current, 1) \
	X(u16, average_gfx_current, 1)

#define V3_0(X) HEADER(X) X(u16, temperature_gfx, 1) X(u16, temperature_soc, 1) X(u16, temperature_core, 16) \
	X(u16, temperature_skin, 1) X(u16, average_gfx_activity, 1) X(u16, average_vcn_activity, 1) \
	X(u16, average_ipu_activity, 8) X(u16, average_core_c0_activity, 16) \
	X(u16, average_dram_reads, 1) X(u16, average_dram_writes, 1) X(u16, average_ipu_reads, 1) X(u16, average_ipu_writes, 1) \
	X(u64, system_clock_counter, 1) X(u32, average_socket_power, 1) X(u16, average_ipu_power, 1) \
	X(u32, average_apu_power, 1) X(u32, average_gfx_power, 1) X(u32, average_dgpu_power, 1) \
	X(u32, average_all_core_power, 1) X(u16, average_core_power, 16) X(u16, average_sys_power, 1) \
	X(u16, stapm_power_limit, 1) X(u16, current_stapm_power_limit, 1) \
	X(u16, average_gfxclk_frequency, 1) X(u16, average_socclk_frequency, 1) X(u16, average_vpeclk_frequency, 1) \
	X(u16, average_ipuclk_frequency, 1) X(u16, average_fclk_frequency, 1) X(u16, average_vclk_frequency, 1) \
	X(u16, average_uclk_frequency, 1) X(u16, average_mpipu_frequency, 1) \
	X(u16, current_coreclk, 16) X(u16, current_core_maxfreq, 1) X(u16, current_gfx_maxfreq, 1) \
	X(u32, throttle_residency_prochot, 1) X(u32, throttle_residency_spl, 1) X(u32, throttle_residency_fppt, 1) \
	X(u32, throttle_residency_sppt, 1) X(u32, throttle_residency_thm_core, 1) X(u32, throttle_residency_thm_gfx, 1) \
	X(u32, throttle_residency_thm_soc, 1) X(u32, time_filter_alphavalue, 1)

/* amdgpu_partition_metrics_v1_0 */
#define PARTITION(X) HEADER(X) X(u16, current_gfxclk, 8) X(u16, current_socclk, 4) X(u16, current_vclk0, 4) \
	X(u16, current_dclk0, 4) X(u16, current_uclk, 1) X(u16, padding, 1) XCP_1_2(X)

#define FIELD(type, name, count) type name[count];
#define STRUCT(tag, LIST) struct tag { LIST(FIELD) };
STRUCT(xcp_1_0, XCP_1_0) STRUCT(xcp_1_1, XCP_1_1) STRUCT(xcp_1_2, XCP_1_2)

#define ROW(type, name, count) printf("%s %s %zu %zu %d\n", version, #name, offsetof(struct table, name), sizeof(type), count);
#define PRINT(label, LIST) { STRUCT(table, LIST) const char *version = label; LIST(ROW) \
	printf("%s . %zu 0 0\n", version, sizeof(struct table)); }

int main(void)
{
	PRINT("1.0", V1_0) PRINT("1.1", V1_1) PRINT("1.2", V1_2) PRINT("1.3", V1_3) PRINT("1.4", V1_4)
	PRINT("1.5", V1_5) PRINT("1.6", V1_6) PRINT("1.7", V1_7) PRINT("1.8", V1_8)
	PRINT("2.0", V2_0) PRINT("2.1", V2_1) PRINT("2.2", V2_2) PRINT("2.3", V2_3) PRINT("2.4", V2_4)
	PRINT("3.0", V3_0) PRINT("xcp1.0", XCP_1_0) PRINT("xcp1.1", XCP_1_1) PRINT("xcp1.2", XCP_1_2)
	PRINT("partition1.0", PARTITION)
	return 0;
}

// Package telemetry measures a card of the amdgpu driver: temperatures, power,
// clocks, utilization, memory, what throttles it. It reads the files in the directory of
// the card's PCI function:
//
//	gpu_metrics                          the firmware's table, versioned, binary
//	hwmon/hwmon*/…                       single sensors, for what is not in the table
//	gpu_busy_percent, mem_busy_percent   the same
//	mem_info_vram_total, …_used          memory, in bytes
//	pcie_replay_count                    packets that were sent again
//	xcp/xcp_metrics                      the table of one partition, on new kernels
//
// Values are numbers in base units: Celsius, watts, hertz, joules, bytes, ratios from 0 to 1.
// What a card does not have is missing. A table of an unknown revision is refused.
//
// Layouts and units of the table are those of Linux,
// drivers/gpu/drm/amd/include/kgd_pp_interface.h.
package telemetry

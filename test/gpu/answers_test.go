//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/nvml"
)

// answer is what nvidia-smi would say of a GPU of the double, as far as it is
// compared.
const answer = `
<gpu id="BUS">
  <product_name>NVIDIA H100 80GB HBM3</product_name>
  <product_architecture>Hopper</product_architecture>
  <mig_mode><current_mig>MODE</current_mig><pending_mig>MODE</pending_mig></mig_mode>
  <mig_devices>MIG</mig_devices>
  <serial>SERIAL</serial>
  <uuid>UUID</uuid>
  <minor_number>MINOR</minor_number>
  <gpu_recovery_action>None</gpu_recovery_action>
  <pci><pci_bus_id>BUS</pci_bus_id><replay_counter>0</replay_counter></pci>
  <clocks_event_reasons>
    <clocks_event_reason_sw_power_cap>Not Active</clocks_event_reason_sw_power_cap>
    <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
    <clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>
    <clocks_event_reason_hw_power_brake_slowdown>Not Active</clocks_event_reason_hw_power_brake_slowdown>
    <clocks_event_reason_sync_boost>Not Active</clocks_event_reason_sync_boost>
    <clocks_event_reason_sw_thermal_slowdown>Not Active</clocks_event_reason_sw_thermal_slowdown>
  </clocks_event_reasons>
  <fb_memory_usage><total>81920 MiB</total><reserved>512 MiB</reserved><used>512 MiB</used></fb_memory_usage>
  <utilization><gpu_util>0 %</gpu_util><memory_util>0 %</memory_util></utilization>
  <ecc_errors><volatile>
    <sram_correctable>0</sram_correctable>
    <sram_uncorrectable_parity>0</sram_uncorrectable_parity>
    <sram_uncorrectable_secded>0</sram_uncorrectable_secded>
    <dram_correctable>0</dram_correctable>
    <dram_uncorrectable>0</dram_uncorrectable>
  </volatile><aggregate>
    <sram_correctable>0</sram_correctable>
    <sram_uncorrectable>0</sram_uncorrectable>
    <dram_correctable>0</dram_correctable>
    <dram_uncorrectable>0</dram_uncorrectable>
  </aggregate></ecc_errors>
  <retired_pages><pending_retirement>N/A</pending_retirement></retired_pages>
  <remapped_rows>
    <remapped_row_pending>No</remapped_row_pending>
    <remapped_row_failure>No</remapped_row_failure>
  </remapped_rows>
  <temperature><gpu_temp>31 C</gpu_temp><memory_temp>44 C</memory_temp></temperature>
  <gpu_power_readings><instant_power_draw>70.00 W</instant_power_draw><requested_power_limit>700.00 W</requested_power_limit></gpu_power_readings>
  <clocks><graphics_clock>345 MHz</graphics_clock><sm_clock>345 MHz</sm_clock><mem_clock>2619 MHz</mem_clock></clocks>
  <fabric><state>N/A</state></fabric>
</gpu>`

const log = `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
<driver_version>` + nvml.DriverVersion + `</driver_version>
<cuda_version>13.0</cuda_version>
<attached_gpus>2</attached_gpus>`

// smiSays is the answer for two GPUs, the second with a MIG device.
func smiSays() string {
	text := log
	for slot := range 2 {
		mode, mig := "Disabled", "None"
		if slot == 1 {
			mode = "Enabled"
			mig = "<mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id><compute_instance_id>0</compute_instance_id></mig_device>"
		}
		text += strings.NewReplacer("BUS", nvml.BusID(slot), "UUID", nvml.UUID(slot), "MODE", mode, "MIG", mig,
			"SERIAL", fmt.Sprint(1650000000+slot), "MINOR", fmt.Sprint(slot)).Replace(answer)
	}
	return text + "\n</nvidia_smi_log>\n"
}

// answersIn, in the environment, has the test binary be the program itself: so Go
// knows that a change of the program needs the tests again. It names the directory
// of nvidia-smi's answers, and the test binary is nvidia-smi, too.
const answersIn = "ACCELMUX_TEST_GPU_ANSWERS"

func TestMain(m *testing.M) {
	switch dir := os.Getenv(answersIn); {
	case dir == "":
		os.Exit(m.Run())
	case os.Args[1] == "-library":
		main()
	default:
		os.Exit(saySMI(dir, strings.Join(os.Args[1:], " ")))
	}
}

// saySMI is an nvidia-smi that says what is in files, and returns its exit status.
func saySMI(dir, arguments string) int {
	name, known := map[string]string{
		"-q -x": "smi.xml", "topo -m": "smi.topology", "nvlink -s": "smi.nvlinks", "-L": "smi.list",
		"--query-gpu=uuid,compute_cap --format=csv,noheader": "smi.compute",
	}[arguments]
	text, err := os.ReadFile(filepath.Join(dir, name))
	if !known || err != nil {
		fmt.Println("Invalid combination of input arguments:", arguments)
		return 1
	}
	fmt.Print(string(text))
	if strings.Contains(string(text), "not a valid field") {
		return 2
	}
	return 0
}

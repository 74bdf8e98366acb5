package driver_test

import (
	"fmt"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

func values(t driver.Telemetry) map[string]float64 {
	all := map[string]float64{}
	for _, v := range t.Values {
		name := v.Name
		if v.Label != "" {
			name += fmt.Sprintf("{%s=%s}", v.Label, v.LabelValue)
		}
		all[name] = v.Value
	}
	return all
}

func TestTelemetry(t *testing.T) {
	l := drivertest.New("H100 80GB", 2)
	l.GPUs[0].SetField(nvml.FI_DEV_MEMORY_TEMP, 60)
	l.GPUs[0].SetField(nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, 1500)
	l.GPUs[0].SetField(nvml.FI_DEV_ECC_DBE_VOL_TOTAL, 2)
	l.GPUs[0].SetField(nvml.FI_DEV_PCIE_REPLAY_COUNTER, 3)
	l.GPUs[0].SetField(nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, 4)
	l.GPUs[1].SetMIG(true, nil, &drivertest.Instance{UUID: "MIG-1", Attributes: nvml.DeviceAttributes{MemorySizeMB: 1}})
	d := open(t, l)
	if all, err := d.Telemetry(t.Context()); len(all) != 0 || err != nil {
		t.Errorf("before a snapshot: %v, %v", all, err)
	}
	s := snapshot(t, d)
	before := l.Calls("nvmlDeviceGetFieldValues")
	all, err := d.Telemetry(t.Context())
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	if n := l.Calls("nvmlDeviceGetFieldValues") - before; n != 2 {
		t.Errorf("%d calls for the fields of two GPUs", n)
	}
	want := map[string]float64{
		"utilization_ratio": 0.5, "memory_utilization_ratio": 0.25, "memory_used_bytes": 0, "memory_total_bytes": 80 << 30,
		"temperature_celsius{sensor=gpu}": 45, "temperature_celsius{sensor=memory}": 60, "power_watts": 123.456,
		"clock_hertz{clock=sm}": 1.98e9, "clock_hertz{clock=memory}": 1.98e9, "energy_joules_total": 1.5,
		"throttled{reason=software-power-cap}": 1, "throttled{reason=hardware-slowdown}": 0, "throttled{reason=sync-boost}": 0,
		"throttled{reason=software-thermal-slowdown}": 0, "throttled{reason=hardware-thermal-slowdown}": 0,
		"throttled{reason=hardware-power-brake}": 0, "ecc_errors_total{type=uncorrected}": 2, "pcie_replays_total": 3,
		"nvlink_errors_total{type=replay}": 4,
	}
	if diff := cmp.Diff(want, values(all[0])); diff != "" || all[0].GPU != s.GPUs[0].UUID {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{"memory_used_bytes": 0, "memory_total_bytes": 1 << 20}, values(all[2])); diff != "" || all[2].GPU != "MIG-1" {
		t.Error(diff)
	}
	l.Lose(0)
	all, err = d.Telemetry(t.Context())
	if err != nil || len(all) != 3 || all[1].Err != nil {
		t.Fatal(all, err)
	}
	wantError(t, all[0].Err, driver.ErrLost)
}

// NVLink 5 counts for each link; telemetry has the sum over the links.
func TestTelemetryOfNVLink5(t *testing.T) {
	l := drivertest.New("B200 180GB", 1)
	l.GPUs[0].SetField(nvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS, 2)
	d := open(t, l)
	snapshot(t, d)
	all, err := d.Telemetry(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := values(all[0])["nvlink_errors_total{type=receive}"]; n != 2*nvml.NVLINK_MAX_LINKS {
		t.Errorf("%v errors", n)
	}
}

package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// Telemetry measures the GPUs with these UUIDs (default all) that a snapshot has read, and
// their MIG devices, concurrently. The errors are those of Snapshot; an error of one GPU is in
// its Err.
func (d *Driver) Telemetry(ctx context.Context, uuids ...string) ([]Telemetry, error) {
	s := d.current()
	if s == nil {
		return nil, ErrClosed
	}
	known := s.identities()
	indexes := make([]int, 0, len(known))
	for i, g := range known {
		if len(uuids) == 0 || slices.Contains(uuids, g.UUID) {
			indexes = append(indexes, i)
		}
	}
	slices.Sort(indexes)
	measured := make([][]Telemetry, len(indexes))
	each(len(indexes), func(n int) {
		g := known[indexes[n]]
		got, err := within(ctx, d, s, d.lane(g.Index), fmt.Sprintf("telemetry of GPU %d", g.Index),
			func() []Telemetry { return s.measure(g) })
		if err != nil {
			got = []Telemetry{{GPU: g.UUID, Err: err}}
		}
		measured[n] = got
	})
	if ctx.Err() != nil {
		return nil, fmt.Errorf("measure the GPUs: %w", ctx.Err())
	}
	failed := make([]error, len(measured))
	for n, of := range measured {
		failed[n] = of[0].Err
	}
	if err := allGone(failed); err != nil {
		return nil, err
	}
	return slices.Concat(measured...), nil
}

// meter is a reader that collects measured values.
type meter struct {
	reader
	values []Value
}

func (m *meter) gauge(name string, value float64, label ...string) {
	m.values = append(m.values, labelled(Value{Name: name, Value: value}, label))
}

func (m *meter) counter(name string, value float64, label ...string) {
	m.values = append(m.values, labelled(Value{Name: name, Value: value, Counter: true}, label))
}

func labelled(v Value, label []string) Value {
	if len(label) == 2 {
		v.Label, v.LabelValue = label[0], label[1]
	}
	return v
}

// measure measures one GPU and its MIG devices. It runs in the GPU's lane.
func (s *session) measure(g GPU) []Telemetry {
	m := &meter{reader: reader{s: s}}
	device, ok := m.handle(g.Index)
	if !ok {
		return []Telemetry{{GPU: g.UUID, Err: m.err}}
	}
	m.use(device)
	m.memory(device)
	m.heat(device)
	m.clocks(device)
	m.counters(device)
	m.linkErrors(device, g)
	all := []Telemetry{{GPU: g.UUID, Values: m.values, Err: m.err}}
	if g.MIGEnabled && !m.end {
		all = append(all, m.instances(device, g)...)
	}
	return all
}

// use measures utilization, which a GPU in MIG mode does not report.
func (m *meter) use(device nvml.Device) {
	m.call("nvmlDeviceGetUtilizationRates", func() nvml.Return {
		use, ret := device.GetUtilizationRates()
		if ret == nvml.SUCCESS {
			m.gauge("utilization_ratio", float64(use.Gpu)/100)
			m.gauge("memory_utilization_ratio", float64(use.Memory)/100)
		}
		return ret
	})
}

func (m *meter) memory(device nvml.Device) {
	m.call("nvmlDeviceGetMemoryInfo", func() nvml.Return {
		memory, ret := device.GetMemoryInfo()
		if ret == nvml.SUCCESS {
			m.gauge("memory_used_bytes", float64(memory.Used))
			m.gauge("memory_total_bytes", float64(memory.Total))
		}
		return ret
	})
}

func (m *meter) heat(device nvml.Device) {
	m.call("nvmlDeviceGetTemperature", func() nvml.Return {
		celsius, ret := device.GetTemperature(nvml.TEMPERATURE_GPU)
		if ret == nvml.SUCCESS {
			m.gauge("temperature_celsius", float64(celsius), "sensor", "gpu")
		}
		return ret
	})
	m.call("nvmlDeviceGetPowerUsage", func() nvml.Return {
		milliwatts, ret := device.GetPowerUsage()
		if ret == nvml.SUCCESS {
			m.gauge("power_watts", float64(milliwatts)/1000)
		}
		return ret
	})
}

// throttling are the reasons that slow a GPU down. Being idle and clock settings are not
// among them.
var throttling = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksEventReasonSwPowerCap, "software-power-cap"},
	{nvml.ClocksThrottleReasonHwSlowdown, "hardware-slowdown"},
	{nvml.ClocksEventReasonSyncBoost, "sync-boost"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "software-thermal-slowdown"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hardware-thermal-slowdown"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "hardware-power-brake"},
}

// clockReasons returns the function that reports why a GPU is slowed down. Drivers before
// R535 have only its older name.
func clockReasons(s *session, device nvml.Device) (function string, read func() (uint64, nvml.Return)) {
	if function = "nvmlDeviceGetCurrentClocksEventReasons"; s.has(function) {
		return function, device.GetCurrentClocksEventReasons
	}
	return "nvmlDeviceGetCurrentClocksThrottleReasons", device.GetCurrentClocksThrottleReasons
}

func (m *meter) clocks(device nvml.Device) {
	for _, clock := range []struct {
		kind nvml.ClockType
		name string
	}{{nvml.CLOCK_SM, "sm"}, {nvml.CLOCK_MEM, "memory"}} {
		m.call("nvmlDeviceGetClockInfo", func() nvml.Return {
			megahertz, ret := device.GetClockInfo(clock.kind)
			if ret == nvml.SUCCESS {
				m.gauge("clock_hertz", float64(megahertz)*1e6, "clock", clock.name)
			}
			return ret
		})
	}
	function, read := clockReasons(m.s, device)
	m.call(function, func() nvml.Return {
		reasons, ret := read()
		if ret != nvml.SUCCESS {
			return ret
		}
		for _, reason := range throttling {
			on := 0.0
			if reasons&reason.bit != 0 {
				on = 1
			}
			m.gauge("throttled", on, "reason", reason.name)
		}
		return ret
	})
}

// counters measures all values that are NVML field values, with one call.
func (m *meter) counters(device nvml.Device) {
	counters := []struct {
		id          uint32
		name        string
		label, kind string
	}{
		{nvml.FI_DEV_ECC_SBE_VOL_TOTAL, "ecc_errors_total", "type", "corrected"},
		{nvml.FI_DEV_ECC_DBE_VOL_TOTAL, "ecc_errors_total", "type", "uncorrected"},
		{nvml.FI_DEV_ECC_SBE_AGG_TOTAL, "ecc_errors_lifetime_total", "type", "corrected"},
		{nvml.FI_DEV_ECC_DBE_AGG_TOTAL, "ecc_errors_lifetime_total", "type", "uncorrected"},
		{nvml.FI_DEV_PCIE_REPLAY_COUNTER, "pcie_replays_total", "", ""},
		{nvml.FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL, "nvlink_errors_total", "type", "crc-flit"},
		{nvml.FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL, "nvlink_errors_total", "type", "crc-data"},
		{nvml.FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL, "nvlink_errors_total", "type", "replay"},
		{nvml.FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL, "nvlink_errors_total", "type", "recovery"},
	}
	ids := []uint32{nvml.FI_DEV_MEMORY_TEMP, nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION}
	for _, c := range counters {
		ids = append(ids, c.id)
	}
	values := m.fields(device, ids...)
	if celsius, ok := values[nvml.FI_DEV_MEMORY_TEMP]; ok {
		m.gauge("temperature_celsius", celsius, "sensor", "memory")
	}
	if millijoules, ok := values[nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION]; ok {
		m.counter("energy_joules_total", millijoules/1000)
	}
	for _, c := range counters {
		if v, ok := values[c.id]; ok {
			m.counter(c.name, v, c.label, c.kind)
		}
	}
}

// linkErrors sums the counters of NVLink 5 (Blackwell and newer), which counts for each
// link, over all links, with one call.
func (m *meter) linkErrors(device nvml.Device, g GPU) {
	if g.Architecture != "Blackwell" && g.Architecture != "Rubin" {
		return
	}
	types := []struct {
		id   uint32
		kind string
	}{
		{nvml.FI_DEV_NVLINK_COUNT_RCV_ERRORS, "receive"},
		{nvml.FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS, "link-integrity"},
		{nvml.FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS, "recovery"},
	}
	var scoped []nvml.FieldValue
	for _, t := range types {
		for link := range uint32(nvml.NVLINK_MAX_LINKS) {
			scoped = append(scoped, nvml.FieldValue{FieldId: t.id, ScopeId: link})
		}
	}
	sums := m.sums(device, scoped)
	for _, t := range types {
		if n, ok := sums[t.id]; ok {
			m.counter("nvlink_errors_total", n, "type", t.kind)
		}
	}
}

// instances measures the memory of MIG devices, the only value of their own.
func (m *meter) instances(gpu nvml.Device, g GPU) []Telemetry {
	var all []Telemetry
	for place := range maxInstances {
		if len(all) == len(g.Instances) || m.end {
			break
		}
		own := &meter{reader: reader{s: m.s}}
		var device nvml.Device
		if !own.call("nvmlDeviceGetMigDeviceHandleByIndex", func() (ret nvml.Return) {
			device, ret = gpu.GetMigDeviceHandleByIndex(place)
			return ret
		}) {
			m.end = own.end
			continue // no MIG device at this index
		}
		uuid := ""
		own.call("nvmlDeviceGetUUID", func() (ret nvml.Return) {
			uuid, ret = device.GetUUID()
			return ret
		})
		own.memory(device)
		if uuid != "" {
			all = append(all, Telemetry{GPU: uuid, Values: own.values, Err: own.err})
		}
	}
	return all
}

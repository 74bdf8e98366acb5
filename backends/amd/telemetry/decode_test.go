package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func one(n uint64) []uint64 { return []uint64{n} }

func gauge(name string, value float64, label ...string) Value {
	v := Value{Name: name, Value: value}
	if len(label) == 2 {
		v.Label, v.LabelValue = label[0], label[1]
	}
	return v
}

func counter(name string, value float64, label ...string) Value {
	v := gauge(name, value, label...)
	v.Counter = true
	return v
}

func sensor(name string, celsius float64) Value {
	return gauge("temperature_celsius", celsius, "sensor", name)
}

func clock(name string, hertz float64) Value { return gauge("clock_hertz", hertz, "clock", name) }

// What was put into the fields of a revision comes out in base units, and nothing
// else: the other fields are not available.
func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		version    string
		dataCentre bool
		fields     map[string][]uint64
		want       []Value
		partitions [][]Value
	}{
		"1.0": {"1.0", true, map[string][]uint64{
			"temperature_edge": one(41), "temperature_hotspot": one(0), "average_socket_power": one(225),
			"current_gfxclk": one(1500), "average_gfx_activity": one(100), "current_fan_speed": one(1200),
			"throttle_status": one(0), "pcie_link_width": one(16), "pcie_link_speed": one(80),
			"energy_accumulator": one(65536), // of unknown unit
		}, []Value{
			sensor("edge", 41), sensor("hotspot", 0), gauge("power_watts", 225), clock("gfx", 1.5e9),
			gauge("utilization_ratio", 1), gauge("fan_rotations_per_second", 20), gauge("throttled", 0, "reason", "any"),
			gauge("pcie_link_lanes", 16), gauge("pcie_link_transfers_per_second", 8e9),
		}, nil},
		"1.1": {"1.1", true, map[string][]uint64{
			"temperature_hbm": {50, 51, 0xffff, 53}, "energy_accumulator": one(3 << 15), "throttle_status": one(4),
		}, []Value{
			sensor("hbm-0", 50), sensor("hbm-1", 51), sensor("hbm-3", 53), counter("energy_joules_total", 1.5),
			gauge("throttled", 1, "reason", "any"),
		}, nil},
		"1.2, a desktop's": {"1.2", false, map[string][]uint64{
			"energy_accumulator": one(65536), "average_umc_activity": one(7), "average_mm_activity": one(35),
		}, []Value{
			gauge("memory_utilization_ratio", 0.07), gauge("engine_utilization_ratio", 0.35, "engine", "media"),
		}, nil},
		"1.3": {"1.3", true, map[string][]uint64{
			"temperature_mem": one(60), "temperature_vrgfx": one(61), "temperature_vrsoc": one(62), "temperature_vrmem": one(63),
			"voltage_soc": one(750), "voltage_gfx": one(900), "voltage_mem": one(1200), "energy_accumulator": one(1 << 40),
			"current_socclk": one(1090), "current_uclk": one(1600), "current_vclk0": one(29), "current_dclk0": one(22),
		}, []Value{
			sensor("memory", 60), sensor("vr-gfx", 61), sensor("vr-soc", 62), sensor("vr-memory", 63),
			gauge("voltage_volts", 0.75, "rail", "soc"), gauge("voltage_volts", 0.9, "rail", "gfx"),
			gauge("voltage_volts", 1.2, "rail", "memory"), counter("energy_joules_total", 1<<24),
			clock("soc", 1.09e9), clock("memory", 1.6e9), clock("video", 29e6), clock("decode", 22e6),
		}, nil},
		"1.4": {"1.4", false, map[string][]uint64{
			"curr_socket_power": one(750), "vcn_activity": {10, 30}, "energy_accumulator": one(65536),
			"throttle_status": one(0), "current_gfxclk": {2100, 2000, 0xffff, 1900}, "pcie_replay_count_acc": one(3),
			"pcie_l0_to_recov_count_acc": one(5),
		}, []Value{
			gauge("power_watts", 750), gauge("engine_utilization_ratio", 0.2, "engine", "video"),
			counter("energy_joules_total", 1), clock("gfx", 2e9), counter("pcie_replays_total", 3),
			counter("pcie_recoveries_total", 5),
		}, nil},
		"1.5": {"1.5", false, map[string][]uint64{
			"jpeg_activity": {0, 100}, "pcie_nak_sent_count_acc": one(1), "pcie_nak_rcvd_count_acc": one(2),
		}, []Value{
			gauge("engine_utilization_ratio", 0.5, "engine", "jpeg"),
			counter("pcie_naks_total", 1, "direction", "sent"), counter("pcie_naks_total", 2, "direction", "received"),
		}, nil},
		"1.6": {"1.6", false, map[string][]uint64{
			"accumulation_counter": one(1000), "prochot_residency_acc": one(1), "ppt_residency_acc": one(2),
			"socket_thm_residency_acc": one(3), "vr_thm_residency_acc": one(4), "hbm_thm_residency_acc": one(5),
			"num_partition": one(2), "xcp0.gfx_busy_inst": {40, 60}, "xcp1.vcn_busy": {8},
			"xcp2.gfx_busy_inst": {99}, // not in use
		}, []Value{
			counter("accumulation_cycles_total", 1000),
			counter("throttled_cycles_total", 1, "reason", "prochot"), counter("throttled_cycles_total", 2, "reason", "power"),
			counter("throttled_cycles_total", 3, "reason", "temperature-socket"),
			counter("throttled_cycles_total", 4, "reason", "temperature-vr"),
			counter("throttled_cycles_total", 5, "reason", "temperature-hbm"),
		}, [][]Value{
			{gauge("utilization_ratio", 0.5)}, {gauge("engine_utilization_ratio", 0.08, "engine", "video")},
		}},
		"1.7": {"1.7", false, map[string][]uint64{
			"num_partition": one(8), "xcp7.jpeg_busy": slices.Repeat(one(25), 32), "energy_accumulator": one(65536),
		}, []Value{counter("energy_joules_total", 1)}, [][]Value{
			7: {gauge("engine_utilization_ratio", 0.25, "engine", "jpeg")},
		}},
		"1.8": {"1.8", false, map[string][]uint64{
			"temperature_hotspot": one(70), "num_partition": one(1), "xcp0.jpeg_busy": slices.Repeat(one(50), 40),
			"xcp0.gfx_busy_inst": slices.Repeat(one(100), 8), "current_uclk": one(2600),
		}, []Value{sensor("hotspot", 70), clock("memory", 2.6e9)}, [][]Value{
			{gauge("utilization_ratio", 1), gauge("engine_utilization_ratio", 0.5, "engine", "jpeg")},
		}},
		"2.1": {"2.1", true, map[string][]uint64{
			"temperature_gfx": one(4521), "temperature_soc": one(4400), "current_fclk": one(1600), "current_vclk": one(400),
			"current_dclk": one(300), "average_socket_power": one(15000), "average_gfx_activity": one(50), "throttle_status": one(0),
		}, []Value{
			sensor("edge", 45.21), sensor("soc", 44), clock("fabric", 1.6e9), clock("video", 4e8), clock("decode", 3e8),
			gauge("throttled", 0, "reason", "any"),
		}, nil},
		"2.4": {"2.4", false, map[string][]uint64{
			"average_socket_power": one(15250), "average_gfx_activity": one(1250), "temperature_gfx": one(3950),
		}, []Value{gauge("power_watts", 15.25), gauge("utilization_ratio", 0.125), sensor("edge", 39.5)}, nil},
		"3.0": {"3.0", false, map[string][]uint64{
			"average_socket_power": one(120_500), "temperature_skin": one(3000), "average_gfxclk_frequency": one(800),
			"average_uclk_frequency": one(937), "average_gfx_activity": one(50), "current_gfx_maxfreq": one(2900),
		}, []Value{gauge("power_watts", 120.5), sensor("skin", 30), clock("gfx", 8e8), clock("memory", 937e6)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(made(t, c.version, c.fields), c.dataCentre)
			if err != nil {
				t.Fatal(err)
			}
			anyOrder := cmpopts.SortSlices(func(a, b Value) bool { return fmt.Sprint(a) < fmt.Sprint(b) })
			want := Metrics{Revision: c.version, Values: c.want, Partitions: c.partitions}
			if diff := cmp.Diff(want, got, anyOrder, cmpopts.EquateEmpty(), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The reasons for slowing down have names, each is 1 or 0, and the bits that
// depend on the card are not read then.
func TestThrottled(t *testing.T) {
	for _, version := range []string{"1.3", "2.2", "2.3", "2.4"} {
		got, err := Decode(made(t, version, map[string][]uint64{
			"throttle_status": one(1), "indep_throttle_status": one(1<<0 | 1<<36 | 1<<47 | 1<<60),
		}), true)
		if err != nil {
			t.Fatal(err)
		}
		on := map[string]bool{}
		for _, v := range got.Values {
			if v.Name != "throttled" || v.Label != "reason" || v.Value != 0 && v.Value != 1 {
				t.Errorf("%+v", v)
			}
			if _, twice := on[v.LabelValue]; twice {
				t.Errorf("%s is there twice", v.LabelValue)
			}
			on[v.LabelValue] = v.Value == 1
		}
		if len(on) != 34 || !on["ppt0"] || !on["temperature-hotspot"] || !on["prochot-gfx"] || on["fit"] {
			t.Errorf("revision %s: %v", version, on)
		}
		if sum := slices.DeleteFunc(slices.Clone(got.Values), func(v Value) bool { return v.Value == 0 }); len(sum) != 3 {
			t.Errorf("revision %s: %v", version, sum)
		}
	}
}

// What cannot be is left out by name; the rest is there.
func TestAbsurd(t *testing.T) {
	m, err := Decode(made(t, "1.8", map[string][]uint64{
		"temperature_hotspot": one(65534), "temperature_mem": one(50), "average_gfx_activity": one(101),
		"curr_socket_power": one(30_000), "current_gfxclk": {2000, 65000}, "num_partition": one(9),
	}), false)
	for _, want := range []string{
		"revision 1.8", "temperature_hotspot is 65534, which cannot be", "average_gfx_activity is 101",
		"curr_socket_power is 30000", "current_gfxclk is 65000", "num_partition is 9",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	if want := []Value{sensor("memory", 50), clock("gfx", 2e9)}; !cmp.Equal(m.Values, want) || m.Partitions != nil {
		t.Errorf("%+v", m)
	}
}

func TestBadTables(t *testing.T) {
	whole := made(t, "1.3", map[string][]uint64{"temperature_edge": one(40), "voltage_mem": one(1000)})
	edit := func(change func(b []byte) []byte) []byte { return change(slices.Clone(whole)) }
	for name, c := range map[string]struct {
		table  []byte
		want   string
		values int
	}{
		"empty":           {nil, "0 bytes, less than its header", 0},
		"half a header":   {whole[:3], "3 bytes, less than its header", 0},
		"unknown content": {edit(func(b []byte) []byte { b[3] = 200; return b }), "not known: 1.200", 0},
		"unknown format":  {edit(func(b []byte) []byte { b[2] = 4; return b }), "not known: 4.3", 0},
		"smaller than it says": {edit(func(b []byte) []byte { binary.NativeEndian.PutUint16(b, 96); return b }),
			"has 96 bytes by its header, want 120", 0},
		"cut off":     {whole[:50], "cut off after 50 of 120 bytes", 1},
		"only header": {whole[:4], "cut off after 4 of 120 bytes", 0},
		"longer": {edit(func(b []byte) []byte { binary.NativeEndian.PutUint16(b, 128); return append(b, 1, 2, 3, 4, 5, 6, 7, 8) }),
			"", 2},
	} {
		m, err := Decode(c.table, true)
		if c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if errors.Is(err, ErrUnknownRevision) != strings.Contains(c.want, "not known") {
			t.Errorf("%s: %v", name, err)
		}
		if len(m.Values) != c.values {
			t.Errorf("%s: %v", name, m.Values)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for at, known := range layouts {
		table := make([]byte, known.size)
		binary.NativeEndian.PutUint16(table, uint16(known.size))
		table[2], table[3] = at.format, at.content
		f.Add(table, true)
		f.Add(table[:known.size/2], false)
	}
	f.Add(describing(1, 9, attr{4, 2, 10, []uint64{50}}, attr{41, 0, 10, []uint64{1, 0xff}}, attr{25, 6, 0, []uint64{3}}), true)
	f.Fuzz(func(t *testing.T, table []byte, dataCentre bool) {
		m, err := Decode(table, dataCentre)
		if m.Revision == "" && err == nil {
			t.Error("neither a revision nor an error")
		}
		if len(m.Partitions) > 8 {
			t.Errorf("%d partitions", len(m.Partitions))
		}
		partition, _ := DecodePartition(table)
		for _, v := range slices.Concat(m.Values, partition.Values) {
			if math.IsNaN(v.Value) || math.IsInf(v.Value, 0) || v.Value < 0 {
				t.Errorf("%+v", v)
			}
		}
		if m.Revision == "1.9" {
			return // a table may have the same value twice there
		}
		seen := map[Value]bool{}
		for _, v := range m.Values {
			if seen[key(v)] {
				t.Errorf("%+v is there twice", v)
			}
			seen[key(v)] = true
		}
	})
}

package telemetry

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// attr is an attribute by the kernel's numbers: which one, of what type (0 u8, 1 s8,
// 2 u16, 3 s16, 4 u32, 5 s32, 6 u64, 7 s64), in what unit.
type attr struct {
	id, kind, unit uint64
	numbers        []uint64
}

// describing returns a table that describes itself, as the driver makes it
// (AMDGPU_METRICS_ENC_ATTR).
func describing(format, content uint8, attrs ...attr) []byte {
	b := binary.NativeEndian.AppendUint32([]byte{0, 0, format, content}, uint32(len(attrs)))
	for _, a := range attrs {
		b = binary.NativeEndian.AppendUint64(b, a.unit<<24|a.kind<<20|a.id<<10|uint64(len(a.numbers)))
		for _, n := range a.numbers {
			switch a.kind / 2 {
			case 0:
				b = append(b, byte(n))
			case 1:
				b = binary.NativeEndian.AppendUint16(b, uint16(n))
			case 2:
				b = binary.NativeEndian.AppendUint32(b, uint32(n))
			default:
				b = binary.NativeEndian.AppendUint64(b, n)
			}
		}
	}
	binary.NativeEndian.PutUint16(b, uint16(len(b)))
	return b
}

var values = cmpopts.EquateApprox(1e-12, 0)

// All known attributes are read with any type of a kernel; others are left out.
func TestDescribed(t *testing.T) {
	m, err := Decode(describing(1, 9,
		attr{0, 2, 2, []uint64{70}}, attr{1, 3, 2, []uint64{60}}, attr{2, 2, 2, []uint64{0xffff}},
		attr{3, 2, 3, []uint64{750}}, attr{4, 0, 10, []uint64{25}}, attr{5, 2, 10, []uint64{5}},
		attr{6, 6, 8, []uint64{5300}}, attr{7, 6, 0, []uint64{1 << 17}}, attr{9, 4, 0, []uint64{1000}},
		attr{10, 4, 0, []uint64{1}}, attr{11, 6, 0, []uint64{2}}, attr{12, 4, 0, []uint64{3}},
		attr{13, 4, 0, []uint64{4}}, attr{14, 4, 0, []uint64{5}},
		attr{16, 2, 0, []uint64{16}}, attr{17, 2, 7, []uint64{320}}, attr{24, 6, 0, []uint64{6}}, attr{25, 6, 0, []uint64{7}},
		attr{27, 4, 0, []uint64{8}}, attr{28, 6, 0, []uint64{9}}, attr{29, 6, 9, make([]uint64, 8)},
		attr{33, 2, 1, []uint64{2000, 2100, 0xffff}}, attr{34, 2, 1, []uint64{1100}}, attr{35, 2, 1, []uint64{400}},
		attr{36, 2, 1, []uint64{300}}, attr{37, 2, 1, []uint64{1300}}, attr{40, 4, 10, []uint64{99}},
		attr{41, 2, 10, []uint64{0, 50}}, attr{42, 0, 10, []uint64{10, 30, 0xff}}, attr{1000, 7, 200, []uint64{1, 2, 3}},
		attr{999, 5, 0, nil},
	), false)
	if err != nil {
		t.Fatal(err)
	}
	want := []Value{
		sensor("hotspot", 70), sensor("memory", 60), gauge("power_watts", 750), gauge("utilization_ratio", 0.25),
		gauge("memory_utilization_ratio", 0.05), counter("energy_joules_total", 2), counter("accumulation_cycles_total", 1000),
		counter("throttled_cycles_total", 1, "reason", "prochot"), counter("throttled_cycles_total", 2, "reason", "power"),
		counter("throttled_cycles_total", 3, "reason", "temperature-socket"),
		counter("throttled_cycles_total", 4, "reason", "temperature-vr"),
		counter("throttled_cycles_total", 5, "reason", "temperature-hbm"),
		gauge("pcie_link_lanes", 16), gauge("pcie_link_transfers_per_second", 32e9),
		counter("pcie_recoveries_total", 6), counter("pcie_replays_total", 7),
		counter("pcie_naks_total", 8, "direction", "sent"), counter("pcie_naks_total", 9, "direction", "received"),
		clock("gfx", 2.05e9), clock("soc", 1.1e9), clock("video", 4e8), clock("decode", 3e8), clock("memory", 1.3e9),
		gauge("engine_utilization_ratio", 0.25, "engine", "jpeg"), gauge("engine_utilization_ratio", 0.2, "engine", "video"),
	}
	if diff := cmp.Diff(Metrics{Revision: "1.9", Values: want}, m, values); diff != "" {
		t.Error(diff)
	}
}

// What a partition's file has, in both forms.
func TestPartition(t *testing.T) {
	want := []Value{
		clock("gfx", 2e9), clock("soc", 1.1e9), clock("video", 4e8), clock("decode", 3e8), clock("memory", 1.3e9),
		gauge("utilization_ratio", 0.5), gauge("engine_utilization_ratio", 0.1, "engine", "jpeg"),
		gauge("engine_utilization_ratio", 0.2, "engine", "video"),
	}
	fixed := made(t, "partition1.0", map[string][]uint64{
		"current_gfxclk": {2000}, "current_socclk": {1100}, "current_vclk0": {400}, "current_dclk0": {300},
		"current_uclk": {1300}, "gfx_busy_inst": {40, 60}, "jpeg_busy": slices.Repeat([]uint64{10}, 40), "vcn_busy": {20},
	})
	own := describing(1, 1, attr{33, 2, 1, []uint64{2000}}, attr{34, 2, 1, []uint64{1100}}, attr{35, 2, 1, []uint64{400}},
		attr{36, 2, 1, []uint64{300}}, attr{37, 2, 1, []uint64{1300}}, attr{40, 0, 10, []uint64{40, 60, 0xff}},
		attr{41, 0, 10, []uint64{10}}, attr{42, 2, 10, []uint64{20}}, attr{43, 6, 0, make([]uint64, 8)})
	dir := t.TempDir()
	if got, err := ReadPartition(dir); err != nil || got != nil {
		t.Errorf("without a file: %v, %v", got, err)
	}
	for _, table := range [][]byte{fixed, own} {
		write(t, dir, map[string]string{"xcp/xcp_metrics": string(table)})
		got, err := ReadPartition(dir)
		if err != nil || !cmp.Equal(want, got, values) {
			t.Error(err, cmp.Diff(want, got, values))
		}
	}
	write(t, dir, map[string]string{"xcp/xcp_metrics": string(describing(1, 7))})
	if _, err := ReadPartition(dir); err == nil || !strings.Contains(err.Error(), "not known: 1.7") ||
		!strings.Contains(err.Error(), dir) {
		t.Errorf("an unknown revision: %v", err)
	}
	path := filepath.Join(dir, "xcp", "xcp_metrics")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPartition(dir); err == nil {
		t.Error("a directory in place of the file, without a problem")
	}
}

func TestBadDescriptions(t *testing.T) {
	hot, busy := attr{0, 2, 2, []uint64{70}}, attr{4, 2, 10, []uint64{50}}
	whole := describing(1, 9, hot, busy)
	edit := func(at int, to ...byte) []byte {
		b := slices.Clone(whole)
		copy(b[at:], to)
		return b
	}
	for name, c := range map[string]struct {
		table []byte
		want  string
		left  int
	}{
		"cut in the count":      {whole[:6], "cut off after 6 bytes", 0},
		"cut in a description":  {whole[:20], "cut off after 20 bytes", 1},
		"cut in the elements":   {whole[:len(whole)-1], "cut off", 1},
		"more than there are":   {edit(4, 3), "cut off", 2},
		"absurdly many":         {edit(4, 0xff, 0xff, 0xff, 0xff), "4294967295 attributes", 0},
		"a type of a later one": {describing(1, 9, hot, attr{4, 8, 10, nil}), "which cannot be", 1},
		"bits of a later one":   {describing(1, 9, hot, attr{4, 2, 10 | 1<<8, nil}), "which cannot be", 1},
		"another unit":          {describing(1, 9, attr{0, 2, 3, []uint64{70}}, busy), "temperature_hotspot is in unit 3, want 2", 1},
		"negative":              {describing(1, 9, attr{0, 3, 2, []uint64{0x8000}}, busy), "temperature_hotspot is negative", 1},
		"absurd":                {describing(1, 9, attr{0, 2, 2, []uint64{9999}}, busy), "temperature_hotspot is 9999", 1},
		"size without a count":  {edit(0, 4, 0), "has 4 bytes by its header", 0},
	} {
		m, err := Decode(c.table, false)
		if err == nil || !strings.Contains(err.Error(), c.want) || len(m.Values) != c.left {
			t.Errorf("%s: %v, %v; want %q", name, m.Values, err, c.want)
		}
	}
}

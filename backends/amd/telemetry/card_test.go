package telemetry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/accelmux/accelmux/backends/sysfs"
)

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// sensors are the single files of a card, in the driver's units.
var sensors = map[string]string{
	"mem_info_vram_used": "1024\n", "mem_info_vram_total": "206141652992\n",
	"gpu_busy_percent": "25\n", "mem_busy_percent": "5\n",
	"hwmon/hwmon4/temp1_label": "edge\n", "hwmon/hwmon4/temp1_input": "41000\n",
	"hwmon/hwmon4/temp2_label": "junction\n", "hwmon/hwmon4/temp2_input": "52500\n",
	"hwmon/hwmon4/temp3_label": "mem\n", "hwmon/hwmon4/temp3_input": "60000\n",
	"hwmon/hwmon4/temp4_label": "other\n", "hwmon/hwmon4/temp4_input": "what\n",
	"hwmon/hwmon4/freq1_label": "sclk\n", "hwmon/hwmon4/freq1_input": "2100000000\n",
	"hwmon/hwmon4/freq2_label": "mclk\n", "hwmon/hwmon4/freq2_input": "1300000000\n",
	"hwmon/hwmon4/power1_input": "142000000\n", "hwmon/hwmon4/fan1_input": "1500\n", "hwmon/hwmon4/name": "amdgpu\n",
}

var anyOrder = cmpopts.SortSlices(func(a, b Value) bool { return fmt.Sprint(a) < fmt.Sprint(b) })

// Without a table all is from single files; with one, they fill what it lacks.
func TestCard(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, sensors)
	memory := []Value{gauge("memory_used_bytes", 1024), gauge("memory_total_bytes", 206141652992)}
	alone := append([]Value{
		gauge("utilization_ratio", 0.25), gauge("memory_utilization_ratio", 0.05),
		sensor("edge", 41), sensor("hotspot", 52.5), sensor("memory", 60), clock("gfx", 2.1e9), clock("memory", 1.3e9),
		gauge("power_watts", 142), gauge("fan_rotations_per_second", 25),
	}, memory...)
	got, err := Card{Dir: dir}.Read()
	if err != nil || !cmp.Equal(Metrics{Values: alone}, got, anyOrder) {
		t.Error(err, cmp.Diff(Metrics{Values: alone}, got, anyOrder))
	}
	write(t, dir, map[string]string{
		"hwmon/hwmon4/power1_average": "150500000\n",
		"gpu_metrics": string(made(t, "1.3", map[string][]uint64{
			"temperature_hotspot": one(55), "average_gfx_activity": one(30), "current_uclk": one(1600),
			"energy_accumulator": one(65536),
		})),
	})
	want := Metrics{Revision: "1.3", Values: append([]Value{
		sensor("hotspot", 55), gauge("utilization_ratio", 0.3), clock("memory", 1.6e9), counter("energy_joules_total", 1),
		gauge("memory_utilization_ratio", 0.05), sensor("edge", 41), sensor("memory", 60), clock("gfx", 2.1e9),
		gauge("power_watts", 150.5), gauge("fan_rotations_per_second", 25),
	}, memory...)}
	got, err = Card{Dir: dir, DataCentre: true}.Read()
	if err != nil || !cmp.Equal(want, got, anyOrder) {
		t.Error(err, cmp.Diff(want, got, anyOrder))
	}
}

// A bad file has its own value left out, and is named.
func TestCardWithBadFiles(t *testing.T) {
	whole := t.TempDir()
	write(t, whole, sensors)
	all, err := Card{Dir: whole}.Read()
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"gpu_metrics": "short", "gpu_busy_percent": "101\n", "mem_info_vram_used": "-1\n",
		"hwmon/hwmon4/temp1_input": "9999999999\n", "hwmon/hwmon4/temp2_label": strings.Repeat("x", sysfs.Limit+1),
		"hwmon/hwmon4/freq1_input": "\x00", "hwmon/hwmon4/power1_input": "18446744073709551616\n",
		"hwmon/hwmon4/fan1_input": "4 5\n",
	} {
		dir := t.TempDir()
		write(t, dir, sensors)
		write(t, dir, map[string]string{file: text})
		lost := 1
		if file == "gpu_metrics" {
			lost = 0
		}
		m, err := Card{Dir: dir}.Read()
		if err == nil || !strings.Contains(err.Error(), file) || len(m.Values) != len(all.Values)-lost {
			t.Errorf("%s: %d of %d values, %v", file, len(m.Values), len(all.Values), err)
		}
	}
	dir := t.TempDir()
	write(t, dir, map[string]string{"hwmon": "a file"})
	if _, err := (Card{Dir: dir}).Read(); err == nil {
		t.Error("hwmon is no directory, without a problem")
	}
	if err := os.Mkdir(filepath.Join(dir, "gpu_busy_percent"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := (Card{Dir: dir}).Read(); !errors.Is(err, sysfs.ErrNotFile) {
		t.Errorf("a directory in place of a file: %v", err)
	}
}

package telemetry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/sysfs"
)

const (
	// maxTable bounds gpu_metrics; the driver gives a page at most.
	maxTable = 64 << 10
	// maxSensors bounds the sensors of one kind.
	maxSensors = 32
)

// Card is a card that can be measured. It can be used concurrently.
type Card struct {
	// Dir is the directory of its PCI function, such as
	// /sys/bus/pci/devices/0000:c1:00.0.
	Dir string
	// DataCentre: the card is of the CDNA family; see [Decode].
	DataCentre bool
}

// Read measures the card. What the card does not have is missing; the error joins
// one for each file that is there but cannot be read, or is malformed, and comes with what
// could be measured. Values of the table are not taken from single files.
func (c Card) Read() (Metrics, error) {
	m, failed := c.table()
	have := map[Value]bool{}
	for _, v := range m.Values {
		have[key(v)] = true
	}
	single, more := c.files()
	sensors, others := c.sensors()
	for _, v := range slices.Concat(single, sensors) {
		if !have[key(v)] {
			have[key(v)] = true
			m.Values = append(m.Values, v)
		}
	}
	return m, errors.Join(slices.Concat(failed, more, others)...)
}

// ReadPartition measures one partition of a card whose driver gives partitions a
// file of their own; dir is the directory of the partition's device: that of the PCI
// function for the first one, /sys/devices/platform/amdgpu_xcp_N for others. Without
// such a file there are no values, and no error.
func ReadPartition(dir string) ([]Value, error) {
	path := filepath.Join(dir, "xcp", "xcp_metrics")
	table, err := sysfs.Read(path, maxTable)
	if err != nil {
		return nil, errors.Join(serious(err)...)
	}
	m, err := DecodePartition(table)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return m.Values, err
}

// key identifies a value.
func key(v Value) Value { return Value{Name: v.Name, Label: v.Label, LabelValue: v.LabelValue} }

func (c Card) table() (Metrics, []error) {
	path := filepath.Join(c.Dir, "gpu_metrics")
	table, err := sysfs.Read(path, maxTable)
	if err == nil {
		var m Metrics
		if m, err = Decode(table, c.DataCentre); err != nil {
			return m, []error{fmt.Errorf("%s: %w", path, err)}
		}
		return m, nil
	}
	return Metrics{}, serious(err)
}

// serious returns an error as a list, empty if it only means that a card does not have
// something: such files are missing, or the driver refuses to read them.
func serious(err error) []error {
	for _, none := range []error{fs.ErrNotExist, unix.EOPNOTSUPP, unix.ENODATA, unix.EINVAL} {
		if errors.Is(err, none) {
			return nil
		}
	}
	if err == nil {
		return nil
	}
	return []error{fmt.Errorf("telemetry: %w", err)}
}

// files returns the values that have a file of their own beside the table.
func (c Card) files() ([]Value, []error) {
	var all []Value
	var failed []error
	for _, f := range []struct {
		file string
		q    quantity
	}{
		{"mem_info_vram_used", quantity{name: "memory_used_bytes"}},
		{"mem_info_vram_total", quantity{name: "memory_total_bytes"}},
		{"gpu_busy_percent", busy("utilization_ratio", 100)},
		{"mem_busy_percent", busy("memory_utilization_ratio", 100)},
		{"pcie_replay_count", counted("pcie_replays_total", "", "")},
	} {
		v, wrong := read(filepath.Join(c.Dir, f.file), f.q)
		all, failed = append(all, v...), append(failed, wrong...)
	}
	return all, failed
}

// read returns the value of a file; none if the card does not have it.
func read(path string, q quantity) ([]Value, []error) {
	n, err := sysfs.Uint(path)
	if err != nil {
		return nil, serious(err)
	}
	v := Value{Name: q.name, Value: q.base(float64(n)), Label: q.label, LabelValue: q.value, Counter: q.counter}
	if q.most > 0 && v.Value > q.most {
		return nil, serious(&fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%d, which cannot be", n)})
	}
	return []Value{v}, nil
}

// The names that sensors of hwmon have in the driver (amdgpu_pm.c), and theirs here.
var (
	temperatures = map[string]string{"edge": "edge", "junction": "hotspot", "mem": "memory"}
	frequencies  = map[string]string{"sclk": "gfx", "mclk": "memory"}
)

// sensors returns the values of hwmon. A card has one directory there.
func (c Card) sensors() ([]Value, []error) {
	root := filepath.Join(c.Dir, "hwmon")
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, serious(err)
	}
	var all []Value
	var failed []error
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "hwmon") {
			continue
		}
		dir := filepath.Join(root, entry.Name())
		for _, kind := range []struct {
			prefix string
			names  map[string]string
			of     func(name string) quantity
		}{
			{"temp", temperatures, func(name string) quantity { return celsius(name, 1000) }},
			{"freq", frequencies, func(name string) quantity {
				q := hertz(name)
				q.scale = 1
				return q
			}},
		} {
			v, wrong := labelled(dir, kind.prefix, kind.names, kind.of)
			all, failed = append(all, v...), append(failed, wrong...)
		}
		v, wrong := power(dir)
		all, failed = append(all, v...), append(failed, wrong...)
		v, wrong = read(filepath.Join(dir, "fan1_input"), rotations)
		all, failed = append(all, v...), append(failed, wrong...)
		break
	}
	return all, failed
}

// labelled returns the sensors prefix1_input, prefix2_input … by the names in
// prefix1_label …; those without a name that is known are left out.
func labelled(dir, prefix string, names map[string]string, of func(string) quantity) ([]Value, []error) {
	var all []Value
	var failed []error
	for i := 1; i <= maxSensors; i++ {
		sensor := filepath.Join(dir, fmt.Sprintf("%s%d", prefix, i))
		label, err := sysfs.Text(sensor + "_label")
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			failed = append(failed, serious(err)...)
			continue
		}
		if name, ok := names[label]; ok {
			v, wrong := read(sensor+"_input", of(name))
			all, failed = append(all, v...), append(failed, wrong...)
		}
	}
	return all, failed
}

// power returns what the card draws, in microwatts: the average on older cards, or the
// present value.
func power(dir string) ([]Value, []error) {
	v, wrong := read(filepath.Join(dir, "power1_average"), watts(1e6))
	if len(v) > 0 || len(wrong) > 0 {
		return v, wrong
	}
	return read(filepath.Join(dir, "power1_input"), watts(1e6))
}

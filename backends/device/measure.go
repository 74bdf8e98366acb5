package device

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/accelmux/accelmux/backends/device/expression"
	"github.com/accelmux/accelmux/backends/device/match"
	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/sdk"
)

var _ engine.Measurer = source{}

// maxSensors bounds the sensors of a device.
const maxSensors = 64

// Measure implements [engine.Measurer]. What cannot be read is left out.
func (s source) Measure(u engine.Unit, device string) []*sdk.Metric {
	if len(u.Devices) == 0 {
		return nil
	}
	r := readingIn(u.Devices[0])
	if len(r.objects) == 0 {
		return nil
	}
	first := r.objects[0]
	var metrics []*sdk.Metric
	for _, m := range s.kind.Gauges {
		if v, ok := value(first, m.File); ok {
			metrics = append(metrics, sdk.Gauge(device, m.Name, v*m.Scale))
		}
	}
	for _, m := range s.kind.Counters {
		if v, ok := value(first, m.File); ok {
			metrics = append(metrics, sdk.Counter(device, m.Name, v*m.Scale))
		}
	}
	if s.kind.Telemetry.Hwmon {
		metrics = append(metrics, hwmon(first.Object, device)...)
	}
	return metrics
}

// value reads a number, which may have a sign and a fraction.
func value(o *expression.Scope, file *expression.Template) (float64, bool) {
	text, err := file.Text(o)
	if err != nil {
		return 0, false
	}
	of, below := fileOf(o, text)
	if text, err = of.Text(below); err != nil {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n-n == 0 // a number, and finite
}

// sensors are the quantities of Linux's hardware monitors (Documentation/hwmon/sysfs-interface):
// their metrics, and the units of the files.
var sensors = map[string]struct {
	metric string
	unit   float64
}{
	"temp": {"temperature_celsius", 1e-3}, "in": {"voltage_volts", 1e-3}, "curr": {"current_amperes", 1e-3},
	"power": {"power_watts", 1e-6}, "energy": {"energy_joules_total", 1e-6},
	"fan": {"fan_rotations_per_second", 1. / 60}, "freq": {"clock_hertz", 1},
}

var sensorFile = regexp.MustCompile(`^(([a-z]+)[0-9]+)_(input|average)$`)

// hwmon reads the monitors of an object, of its device, or of the PCI function it is on. A power
// that is measured both ways is that of the moment.
func hwmon(o *match.Object, device string) []*sdk.Metric {
	var metrics []*sdk.Metric
	for _, dir := range monitors(o) {
		names, err := dir.Names("*[0-9]_*")
		if err != nil {
			continue
		}
		slices.Reverse(names) // input comes before average
		seen := map[string]bool{}
		for _, name := range names {
			parts := sensorFile.FindStringSubmatch(name)
			if parts == nil || seen[parts[1]] {
				continue
			}
			of, ok := sensors[parts[2]]
			text, err := dir.Text(name)
			n, wrong := strconv.ParseFloat(text, 64)
			if !ok || err != nil || wrong != nil || n-n != 0 || len(metrics) == maxSensors {
				continue
			}
			seen[parts[1]] = true
			m := sdk.Gauge(device, of.metric, n*of.unit)
			if strings.HasSuffix(of.metric, "_total") {
				m = sdk.Counter(device, of.metric, n*of.unit)
			}
			m.Labels = map[string]string{"sensor": label(dir, parts[1])}
			metrics = append(metrics, m)
		}
	}
	return metrics
}

// label returns the name of a sensor: what the driver calls it, and the file's, since several
// may be called the same.
func label(dir *match.Object, sensor string) string {
	text, err := dir.Text(sensor + "_label")
	if err != nil || text == "" {
		return sensor
	}
	printable := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text[:min(len(text), 64)])
	return strings.ToValidUTF8(printable, "") + " " + sensor
}

// monitors returns the directories of the hardware monitors.
func monitors(o *match.Object) []*match.Object {
	hardware := *o
	hardware.Dir = o.Hardware().Dir
	for _, of := range []struct {
		at  *match.Object
		dir string
	}{{o, "hwmon"}, {o, "device/hwmon"}, {&hardware, "hwmon"}} {
		names, err := of.at.Names(of.dir + "/hwmon*")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrPermission) || len(names) == 0 {
			continue
		}
		var all []*match.Object
		for _, name := range names {
			one := *of.at
			one.Dir = path.Join(of.at.Dir, of.dir, name)
			all = append(all, &one)
		}
		return all
	}
	return nil
}

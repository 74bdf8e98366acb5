package fpga

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/manifests"
)

// oneOfEach returns the configuration for a machine with cards of all drivers, and the machine's
// files.
func oneOfEach(t testing.TB) (cfg *config, files []string) {
	t.Helper()
	m := fpgatree.NewVF()
	for _, other := range []fpgatree.Machine{fpgatree.NewArria10(), fpgatree.NewZynqMP(), fpgatree.NewPlainPCI(), fpgatree.NewAlveo(fpgatree.U250)} {
		m.Cards, m.Plain, m.Alveos = append(m.Cards, other.Cards...), append(m.Plain, other.Plain...), append(m.Alveos, other.Alveos...)
	}
	m.Cards[1].Address.Bus, m.Alveos[0].Address.Bus = 0x3b, 0x66
	tree := fpgatest.Tree(t, m)
	fpgatest.OK(t, filepath.WalkDir(tree.Sysfs(), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}))
	cfg, err := configure([]byte(`{"bitstreams": "/b"}`), sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: t.TempDir()})
	fpgatest.OK(t, err)
	return cfg, files
}

// FuzzMachine gives any file of a machine with cards of all drivers any content: the core still
// accepts what is listed and measured, and a file of one card does not affect the other cards.
func FuzzMachine(f *testing.F) {
	cfg, files := oneOfEach(f)
	contents := []string{"", "\x00\x00", "0x1\n", "-1", "99999999999999999999\n", "a\xffb/c é", "DEVNAME=../x\n", "18446744073709551615", "NaN"}
	for i, content := range contents {
		f.Add(uint16(i*len(files)/len(contents)), []byte(content))
	}
	f.Add(uint16(slices.IndexFunc(files, func(file string) bool { return filepath.Base(file) == "serial_num" })), []byte(".")) //nolint:gosec // small
	devices, _ := listFor(f, cfg)
	listed := len(devices)
	if listed != 5 {
		f.Fatalf("%d devices are listed", listed)
	}
	f.Fuzz(func(t *testing.T, which uint16, content []byte) {
		file := files[int(which)%len(files)]
		was, err := os.ReadFile(file)
		fpgatest.OK(t, err)
		defer func() {
			if err := os.WriteFile(file, was, 0o600); err != nil {
				t.Error(err)
			}
		}()
		fpgatest.OK(t, os.WriteFile(file, content, 0o600))
		if got, _ := listFor(t, cfg); len(got) < listed-maxLost {
			t.Errorf("%q in %s: %d devices are listed, of %d", content, file, len(got), listed)
		}
	})
}

// maxLost is the number of devices that one file may affect: that of its card.
const maxLost = 1

// listFor lists a machine by all drivers, and checks what they report.
func listFor(t testing.TB, cfg *config) ([]*backendv1.Device, []string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	set := &engine.Settings{Vendor: vendor{log, cfg}, Sysfs: cfg.host.Sysfs}
	for _, d := range (opened{}).drivers(cfg) {
		set.Drivers = append(set.Drivers, source{driver: d, cfg: cfg})
		for _, card := range d.Read().Cards {
			senses := d.Sense(card)
			checkSenses(t, senses)
			for _, fault := range slices.Concat(card.Faults, senses.Faults) {
				checkFault(t, fault)
			}
			for _, r := range card.Regions {
				for _, fault := range r.Faults {
					checkFault(t, fault)
				}
			}
		}
	}
	devices, problems := engine.ListOnce(engine.Options{Log: log, Hardware: "FPGA", Unit: "card", Part: "region"}, set)
	for _, problem := range problems {
		if !utf8.ValidString(problem) {
			t.Errorf("a problem is %q", problem)
		}
	}
	sane(t, &backendv1.Inventory{Devices: devices})
	return devices, problems
}

func checkFault(t testing.TB, f driver.Fault) {
	t.Helper()
	if f.Code == "" || len(f.Code) > 63 || f.Text == "" || len(f.Text) > 1024 || !utf8.ValidString(f.Code+f.Text) || f.Recovery == 0 {
		t.Errorf("fault %+v", f)
	}
}

func checkSenses(t testing.TB, senses driver.Senses) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range senses.Sensors {
		key := fmt.Sprintf("%s %s", s.Metric, s.Sensor)
		if s.Metric == "" || s.Sensor == "" || len(s.Sensor) > 128 || !utf8.ValidString(s.Sensor) ||
			strings.ContainsFunc(s.Sensor, unicode.IsControl) || math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || seen[key] {
			t.Errorf("sensor %+v (there twice: %t)", s, seen[key])
		}
		seen[key] = true
	}
}

// FuzzSettings verifies that settings which the schema accepts are refused, or can be used.
func FuzzSettings(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"mode": "region-devel", "drivers": ["dfl", "manager"], "bitstreams": "/var/lib/bitstreams", "management": true}`,
		`{"health": {"interval": "1m", "sensors": "0", "alarms": "report", "ignore": ["pcie0_errors"]}, "edits": {"groups": "none"}}`,
		`{"prepare": {"reset": true, "leftovers": "report"}, "xrt": {"root": "/opt", "tool": "/bin/xbutil"}, "manager": {"firmware": "/lib/firmware", "flags": 1}}`,
	} {
		f.Add([]byte(text))
	}
	check := manifests.Check(f, manifests.Load(f, "manifest.yaml"))
	host := sdk.HostPaths{Sysfs: "/sys", Devfs: "/dev", Procfs: f.TempDir()}
	f.Fuzz(func(t *testing.T, data []byte) {
		if check(data) != nil {
			return
		}
		cfg, err := configure(data, host)
		if err != nil {
			return
		}
		if cfg.interval < minInterval || cfg.interval > maxInterval || len(cfg.Drivers) == 0 || len((opened{}).drivers(cfg)) != len(cfg.Drivers) {
			t.Errorf("%s is %+v", data, cfg.settings)
		}
	})
}

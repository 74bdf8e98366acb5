package device

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/test/devicetree"
)

// many returns a tree with n devices on PCI, each with attributes, sensors and a heartbeat.
func many(tb testing.TB, n int) devicetree.Tree {
	var lines strings.Builder
	for i := range n {
		at := fmt.Sprintf("%04x:%02x:%02x.0", i>>10, i>>5&31, i&31)
		lines.WriteString(strings.NewReplacer("FUNCTION", "sys/devices/pci0000:00/"+at, "AT", at, "NPU", fmt.Sprintf("npu%d", i), "MINOR_", fmt.Sprint(i)).Replace(`
			FUNCTION/vendor: 0x1234
			FUNCTION/device: 0x5678
			FUNCTION/class: 0x120000
			FUNCTION/numa_node: 0
			FUNCTION/npu/NPU/uevent: MAJOR=240\nMINOR=MINOR_\nDEVNAME=NPU
			FUNCTION/npu/NPU/model: N1
			FUNCTION/npu/NPU/serial: SMINOR_
			FUNCTION/npu/NPU/memory: 1024
			FUNCTION/npu/NPU/status: ALIVE
			FUNCTION/npu/NPU/heartbeat: 7
			sys/bus/pci/devices/AT -> ../../../devices/pci0000:00/AT
			sys/class/npu/NPU -> ../../devices/pci0000:00/AT/npu/NPU
			dev/NPU: c 240:MINOR_`))
	}
	return devicetree.New(tb, lines.String())
}

const manyKinds = `{"edits": {"groups": "none"}, "kinds": [{"name": "npu", "match": {"class": "npu", "where": "pci.vendor == '1234'"}, "edits": {"nodes": [{"path": "/dev/{name}"}]},
	"attributes": {"model": "self.text('model')", "serial": "self.text('serial')"}, "capacities": {"memory": "self.number('memory')"},
	"health": [{"fault": "dead", "when": "self.text('status') != 'ALIVE'"}, {"fault": "stuck", "heartbeat": "heartbeat"}]}]}`

// A directory that cannot be listed is a problem by which the scan leaves out devices, one that the kernel does not have is
// empty.
func TestUnreadableDirectory(t *testing.T) {
	tree := many(t, 2)
	_, set := on(t, tree.Host(), manyKinds)
	driver, _ := set.Drivers[0].(source)
	if scan := driver.Scan(nil); len(scan.Units) != 2 || len(scan.Problems) > 0 {
		t.Fatalf("%d units, problems %v", len(scan.Units), scan.Problems)
	}
	class := filepath.Join(tree.Host().Sysfs, "class/npu")
	if err := os.RemoveAll(class); err != nil {
		t.Fatal(err)
	}
	if scan := driver.Scan(nil); len(scan.Units)+len(scan.Problems) > 0 {
		t.Errorf("without the class: %d units, problems %v", len(scan.Units), scan.Problems)
	}
	if err := os.WriteFile(class, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if scan := driver.Scan(nil); len(scan.Problems) != 1 || !scan.Problems[0].Lost || scan.Problems[0].Device != "" {
		t.Errorf("%d units, problems %v", len(scan.Units), scan.Problems)
	}
}

// A class that the kernel does not have is one that could not be looked at if hardware of the kind is there without its
// driver, which makes the class: a new process knows no devices, and an earlier one may have listed them.
func TestMissingClass(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:6b/0000:6b:00.0/"
	gpu := "sys/bus/pci/devices/0000:6b:00.0 -> ../../../devices/pci0000:6b/0000:6b:00.0\n" + at + "vendor: 0x8086\n" + at + "device: 0x56c0\n" + at + "class: 0x038000\n"
	for name, c := range map[string]struct {
		tree string
		lost int
	}{"no class": {gpu, 1}, "a class": {gpu + "sys/class/drm/version: drm 1.1.0\n", 0}, "no hardware": {"sys/bus/pci/slots/x: 1\n", 0}} {
		_, set := on(t, devicetree.New(t, c.tree).Host(), `{"presets": ["intel-gpu"]}`)
		driver, _ := set.Drivers[0].(source)
		scan := driver.Scan(nil)
		lost := 0
		for _, p := range scan.Problems {
			if p.Lost && p.Device == "" && strings.HasPrefix(p.Err.Error(), "0000:6b:00.0: kind intel-gpu: it is not listed: no driver is bound to it") {
				lost++
			}
		}
		if lost != c.lost {
			t.Errorf("%s: %+v", name, scan.Problems)
		}
	}
}

// A scan is polled only if its kind has health, is of interfaces, USB or VFIO: 1,024 devices that have none cost nothing at rest.
func TestUnpolled(t *testing.T) {
	kinds := func(more string) string {
		return `{"edits": {"groups": "none"}, "kinds": [{"name": "npu", "match": {"class": "npu"}, "edits": {"nodes": [{"path": "/dev/{name}"}]}` + more + `}]}`
	}
	const functions = `{"edits": {"groups": "none"}, "kinds": [{"name": "f", "match": {"pci": {"vendors": ["1234"]}}, "edits": {"env": {"F": "{name}"}}}]}`
	const vfio = `
		sys/bus/pci/drivers/vfio-pci/
		sys/devices/pci0000:00/0000:00:00.0/driver -> ../../../bus/pci/drivers/vfio-pci`
	for name, c := range map[string]struct {
		settings, tree string
		want           bool
	}{
		"no health":       {kinds(""), "", true},
		"health":          {kinds(`, "health": [{"fault": "dead", "when": "self.text('status') != 'ALIVE'"}]`), "", false},
		"a function":      {functions, "", true},
		"a VFIO function": {functions, vfio, false},
	} {
		tree := many(t, 1)
		tree.Change(t, c.tree)
		_, set := on(t, tree.Host(), c.settings)
		if scan := set.Drivers[0].Scan(nil); len(scan.Units) != 1 || scan.Unpolled != c.want {
			t.Errorf("%s: unpolled %v, %d units, %v", name, scan.Unpolled, len(scan.Units), scan.Problems)
		}
	}
}

// BenchmarkPoll is what is read each second of ten devices and of as many as a backend may have.
func BenchmarkPoll(b *testing.B) {
	for _, n := range []int{10, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			_, set := on(b, many(b, n).Host(), manyKinds)
			benchmarkPolls(b, set)
		})
	}
}

// benchmarkPolls polls the devices of the first kind.
func benchmarkPolls(b *testing.B, set *engine.Settings) {
	b.Helper()
	driver, _ := set.Drivers[0].(source)
	last := driver.Scan(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := driver.Poll(last); !ok {
			b.Fatal("it does not suffice")
		}
	}
}

// BenchmarkScan compares a scan of 1,024 devices, and what is read at the interval, with cat of the
// same files, in one process.
func BenchmarkScan(b *testing.B) {
	tree := many(b, 1024)
	_, set := on(b, tree.Host(), manyKinds)
	b.Run("scan", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n := len(set.Drivers[0].Scan(nil).Units); n != 1024 {
				b.Fatal(n)
			}
		}
	})
	b.Run("poll", func(b *testing.B) {
		benchmarkPolls(b, set)
	})
	var files []string
	if err := filepath.WalkDir(filepath.Join(tree.Root, "sys"), func(path string, d fs.DirEntry, err error) error {
		if d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	}); err != nil {
		b.Fatal(err)
	}
	list := filepath.Join(tree.Root, "list")
	if err := os.WriteFile(list, []byte(strings.Join(files, "\x00")), 0o600); err != nil {
		b.Fatal(err)
	}
	b.Run("cat", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("sh", "-c", "xargs -0 -n 100000 cat >/dev/null <"+list).Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

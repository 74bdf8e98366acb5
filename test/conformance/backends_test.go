package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/cmd/accelmux/conformance"
	"github.com/accelmux/accelmux/core/sandbox"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/nvml"
	"github.com/accelmux/accelmux/test/sysroot"
)

// Verifies that the mock backend keeps the contract, also when a device fails while it runs.
func TestMock(t *testing.T) {
	t.Parallel()
	scenario := filepath.Join(t.TempDir(), "scenario.yaml")
	run(t, conformance.Options{
		Program: "accelmux-backend-mock", Exercise: true,
		Settings: settings(t, map[string]any{
			"scenarioFile": scenario, "stateFile": scenario + ".made",
			"devices": []any{
				map[string]any{"count": 2, "memory": "16Gi", "hooks": []string{"prepare", "release"}, "links": map[string]any{"topology": "all-to-all"}},
				map[string]any{"memory": "4Gi", "partitions": map[string]any{"slices": 4, "profiles": map[string]any{"4g": 4, "1g": 1}}},
			},
		}),
		HardwareChange: fmt.Sprintf("echo '[{\"devices\": [\"mock-1\"], \"health\": \"unhealthy\"}]' > %s", scenario),
	}, "heartbeats-from-loop")
}

// noProcesses makes a procfs without other processes, so that devices are reset whatever runs on this machine.
func noProcesses(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "self/ns"), 0o755), os.Mkdir(filepath.Join(dir, "1"), 0o755),
		os.Symlink("pid:[4026531836]", filepath.Join(dir, "self/ns/pid")), // the initial namespace (PROC_PID_INIT_INO)
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Verifies that the AMD backend keeps the contract on a tree of sysfs, with partitions that are made for claims.
func TestAMD(t *testing.T) {
	t.Parallel()
	tree := amdtree.New(t, amdtree.NewMI300X("SPX", "NPS1"))
	tree.Sudden = true
	ctx, cancel := context.WithCancel(t.Context())
	driver := make(chan error, 1)
	go func() { driver <- tree.FollowModes(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-driver; err != nil {
			t.Error(err)
		}
	})
	run(t, conformance.Options{
		Program: "accelmux-backend-amd", Exercise: true,
		Settings: settings(t, map[string]any{
			"partitions": map[string]any{"strategy": "dynamic", "stateFile": filepath.Join(t.TempDir(), "made")},
			"poll":       "100ms", "rescan": "1s", "health": map[string]any{"interval": "1s"}, "prepare": map[string]any{"check": true},
		}),
		HostPaths: conformance.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: noProcesses(t)},
	}, "change-reported")
}

// Verifies that the FPGA backend keeps the contract on a tree of sysfs.
func TestFPGA(t *testing.T) {
	t.Parallel()
	tree, err := fpgatree.Write(sysroot.TempDir(t), fpgatree.NewD5005())
	if err != nil {
		t.Fatal(err)
	}
	run(t, conformance.Options{
		Program: "accelmux-backend-fpga", Exercise: true,
		Settings:  settings(t, map[string]any{"health": map[string]any{"interval": "1s"}, "prepare": map[string]any{"leftovers": "report"}}),
		HostPaths: conformance.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: noProcesses(t)},
	}, "change-reported", "release-results")
}

// Verifies that the backend for described devices keeps the contract, with devices that are
// prepared, of which one fails while it runs.
func TestDevice(t *testing.T) {
	t.Parallel()
	lines := ""
	for n := range 2 {
		at := fmt.Sprintf("0000:0%d:00.0", n+1)
		lines += strings.NewReplacer("FUNCTION", "sys/devices/pci0000:00/"+at, "AT", at, "NPU", fmt.Sprintf("npu%d", n)).Replace(`
			FUNCTION/vendor: 0x1234
			FUNCTION/device: 0x5678
			FUNCTION/class: 0x120000
			FUNCTION/hwmon/hwmon0/temp1_input: 40000
			FUNCTION/npu/NPU/uevent: MAJOR=240\nMINOR=0\nDEVNAME=NPU
			FUNCTION/npu/NPU/status: ALIVE
			FUNCTION/npu/NPU/scrub: 0
			sys/bus/pci/devices/AT -> ../../../devices/pci0000:00/AT
			sys/class/npu/NPU -> ../../devices/pci0000:00/AT/npu/NPU
			dev/NPU: c 240:0`)
	}
	host := devicetree.New(t, lines+"\nproc/sys/kernel/random/boot_id: 1").Host()
	run(t, conformance.Options{
		Program: "accelmux-backend-device", Exercise: true,
		Settings: settings(t, map[string]any{
			"presets": []string{"kvm"}, "interval": "1s", "stateDir": t.TempDir(),
			"kinds": []any{map[string]any{
				"name": "npu", "match": map[string]any{"class": "npu", "names": []string{"npu*"}}, "edits": map[string]any{"nodes": []any{map[string]any{"path": "/dev/{name}"}}}, "telemetry": map[string]any{"hwmon": true}, "reset": map[string]any{"pci": true},
				"health":  []any{map[string]any{"fault": "dead", "when": `self.text("status") != "ALIVE"`}},
				"prepare": []any{map[string]any{"write": map[string]any{"file": "scrub", "value": "1"}}},
			}},
		}),
		HostPaths:      conformance.HostPaths{Sysfs: host.Sysfs, Devfs: host.Devfs, Procfs: host.Procfs},
		HardwareChange: "echo LAMED > " + filepath.Join(host.Sysfs, "class/npu/npu1/status"),
	})
}

// Verifies that the NVIDIA backend keeps the contract on a double of the driver's library.
func TestNVIDIA(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	library, err := nvml.Build(t.Context(), built.Dir(t))
	if err != nil {
		t.Fatal(err)
	}
	double, err := nvml.New(library, dir)
	if err != nil {
		t.Fatal(err)
	}
	host, err := nvml.NewHost(dir, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := double.Update(func(s nvml.State) { s.AddGPU(0); s.AddGPU(1) }); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"proc", "sys"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, conformance.Options{
		Program: "accelmux-backend-nvidia", Exercise: true, Allowed: sandbox.Needs{Read: []string{filepath.Join(dir, "nvml.conf*")}}, // the double's
		Env:       map[string]string{"ACCELMUX_NVML_FILE": filepath.Join(dir, "nvml.conf")},
		Settings:  settings(t, map[string]any{"library": double.Library(), "rescan": "1s", "prepare": map[string]any{"check": true}, "edits": map[string]any{"driverRoot": "/driver", "driverRootMount": filepath.Join(dir, "driver")}}),
		HostPaths: conformance.HostPaths{Sysfs: filepath.Join(dir, "sys"), Devfs: filepath.Join(dir, "dev"), Procfs: filepath.Join(dir, "proc")},
	}, "change-reported", "release-results")

	if err := double.Update(func(s nvml.State) { s.Partition(0) }); err != nil {
		t.Fatal(err)
	}
	for index := range 3 {
		if err := host.AddMIG(0, index); err != nil {
			t.Fatal(err)
		}
	}
	run(t, conformance.Options{
		Program: "accelmux-backend-nvidia", Exercise: true, Allowed: sandbox.Needs{Write: []string{dir + "/**"}}, // the double's
		Env: map[string]string{"ACCELMUX_NVML_FILE": filepath.Join(dir, "nvml.conf")},
		Settings: settings(t, map[string]any{
			"library": double.Library(), "rescan": "1s", "edits": map[string]any{"driverRoot": "/driver", "driverRootMount": filepath.Join(dir, "driver")},
			"mig": map[string]any{"strategy": "dynamic", "stateFile": filepath.Join(dir, "made.json")},
		}),
		HostPaths: conformance.HostPaths{Sysfs: filepath.Join(dir, "sys"), Devfs: filepath.Join(dir, "dev"), Procfs: filepath.Join(dir, "proc")},
	}, "change-reported")
}

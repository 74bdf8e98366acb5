package discover

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/accelmux/accelmux/core/config"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/pcibus"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/devicetree"
	"github.com/accelmux/accelmux/test/programs"
	"github.com/accelmux/accelmux/test/sysroot"
)

// function is a PCI function of a tree.
func function(address, vendor, device, class string) string {
	at := "sys/devices/pci0000:00/" + address
	return at + "/vendor: 0x" + vendor + "\n" + at + "/device: 0x" + device + "\n" + at + "/class: 0x" + class + "\n" +
		"sys/bus/pci/devices/" + address + " -> ../../../devices/pci0000:00/" + address + "\n"
}

// Verifies with the backends' programs, on a made tree, which of them and which presets fit, which
// accelerators nothing covers, and that the configuration is valid. The nodes are links to others
// of this machine, so the devices have faults.
func TestFind(t *testing.T) {
	tree := devicetree.New(t, function("0000:00:02.0", "8086", "56c0", "038000")+`
sys/devices/pci0000:00/0000:00:02.0/driver -> ../../../bus/pci/drivers/xe
sys/devices/pci0000:00/0000:00:02.0/drm/card0/uevent: MAJOR=226\nMINOR=0\nDEVNAME=dri/card0
sys/devices/pci0000:00/0000:00:02.0/drm/renderD128/uevent: MAJOR=226\nMINOR=128\nDEVNAME=dri/renderD128
sys/class/drm/card0 -> ../../devices/pci0000:00/0000:00:02.0/drm/card0
dev/dri/card0 -> /dev/null
dev/dri/renderD128 -> /dev/zero
sys/devices/virtual/misc/kvm/uevent: MAJOR=10\nMINOR=232\nDEVNAME=kvm
sys/class/misc/kvm -> ../../devices/virtual/misc/kvm
dev/kvm -> /dev/null
`+function("0000:00:05.0", "10de", "15f8", "030200")+function("0000:00:0c.0", "1b36", "0005", "120000")+
		function("0000:00:0d.0", "10ee", "5000", "120000")+function("0000:00:0e.0", "1234", "0001", "020000")+`
sys/devices/pci0000:00/0000:00:0e.0/infiniband/x_0/node_type: 1: CA
`+function("0000:00:0b.0", "8086", "7d1d", "120000")+function("0000:00:0a.0", "8086", "4941", "0b4000")+`
sys/devices/pci0000:00/0000:00:0a.0/driver -> ../../../bus/pci/drivers/4xxxvf
sys/devices/pci0000:00/0000:00:0e.0/net/
sys/class/net/lo/type: 772
`)
	dir := t.TempDir()
	programs.Build(t, dir+"/", "../../accelmux-backend-device", "../../accelmux-backend-fpga", "../../accelmux-backend-amd")
	programs.Build(t, filepath.Join(dir, "accelmux-backend-camera"), "../../../backends/examples/camera")
	for name, text := range map[string]string{"accelmux-backend-broken": "#!/bin/sh\necho 'no library' >&2\nexit 3\n", "accelmux-backend-mock": "", "other": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	// Its hardware is not there, so it is not started; otherwise it would be one that could not be asked.
	absent := "apiVersion: backend.accelmux.io/v1\nkind: Backend\nname: absent\nvendor: X\nversion: 1.0.0\nprotocols: [1]\nclasses: [npu]\ninUse: none\nhardware: [{vendor: \"1e36\", name: X}]\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "accelmux-backend-absent"), []byte("#!/bin/sh\nexit 3\n"), 0o755), //nolint:gosec // a program
		os.WriteFile(filepath.Join(dir, "accelmux-backend-absent.yaml"), []byte(absent), 0o600)); err != nil {
		t.Fatal(err)
	}
	var starts atomic.Int64
	run := shortDir(t)
	t.Setenv("TMPDIR", run)
	paths := &backendv1.HostPaths{Sysfs: tree.Host().Sysfs, Devfs: tree.Host().Devfs, Procfs: tree.Host().Procfs}
	result, err := Find(t.Context(), Options{BackendDir: dir, Paths: paths, Log: slog.New(startCounter{&starts})})
	if err != nil {
		t.Fatal(err)
	}
	if n := starts.Load(); n != 3 { // camera, device, fpga
		t.Errorf("%d processes were started, want one of each program whose hardware may be there", n)
	}
	text, err := result.Write()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"            - intel-gpu\n            - kvm\n",
		"# 1 device: intel-gpu-0000:00:02.0; intel-gpu-0000:00:02.0 is unhealthy: ",
		"- name: device.accelmux.io/kvm\n        backend: device\n        class: kvm\n        replicas: 1000\n",
		"# The backend fpga does not list 0000:00:0d.0  10ee:5000  class 1200  no driver\n",
		"      - name: amd.com/{platformName}\n        backend: fpga\n",
		"#   0000:00:05.0  10de:15f8  class 0302  no driver\n",
		"#   0000:00:0c.0  1b36:0005  class 1200  no driver\n", "#   0000:00:0e.0  1234:0001  class 0200  no driver\n",
		"#   0000:00:0a.0: kind intel-qat: it is not listed: it is bound to the driver 4xxxvf: bind it to vfio-pci instead\n",
		"#   0000:00:0b.0: kind intel-npu: it is not listed: no driver is bound to it: load the module of intel_vpu",
		"# Problems of presets that list no devices here:\n", "#   kind socketcan: the agent sees no network interface of the node",
		"# Backends that list no devices here: absent, amd, camera\n", "# The backend broken could not be asked: ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "mock") || strings.Contains(string(text), "0000:00:0b.0  8086") || strings.Contains(string(text), "0000:00:02.0  8086") {
		t.Errorf("the mock or what is listed is in\n%s", text)
	}
	if left, err := os.ReadDir(run); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// startCounter counts the records of processes that were started.
type startCounter struct{ n *atomic.Int64 }

func (startCounter) Enabled(context.Context, slog.Level) bool { return true }

func (c startCounter) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "backend runs" {
		c.n.Add(1)
	}
	return nil
}

func (c startCounter) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c startCounter) WithGroup(string) slog.Handler      { return c }

// Verifies what is written about backends of others, many devices and problems, and that a machine
// that nothing fits is an error with the reasons.
func TestWrite(t *testing.T) {
	device := func(id string, shares int64) *inventory.Device {
		return &inventory.Device{
			Key: inventory.Key{Backend: "acme", ID: id}, Class: "npu", Health: inventory.Health{State: inventory.StateHealthy},
			Capacities: inventory.Named(map[string]int64{"shares": shares}),
		}
	}
	acme := &inventory.Backend{
		Devices:     []*inventory.Device{device("a", 8), device("b", 4), device("c", 8), device("d", 8), device("e", 2000)},
		Problems:    []inventory.Problem{{Device: "f", Message: "no firmware\nat all"}},
		Description: inventory.Description{Classes: []string{"npu", "idle"}, Edits: inventory.EditScope{Devices: []string{"/dev/acme*"}}},
	}
	nvidia := &inventory.Backend{Description: inventory.Description{Classes: []string{"gpu", "mig"}}}
	r := &Result{
		Fitting: []Backend{
			{Name: "acme", Backend: acme},
			{Name: "nvidia", Backend: nvidia, Unlisted: []pcibus.Accelerator{{Address: "0000:05:00.0", Vendor: "10de", Device: "15f8", Class: "0302"}}},
		},
		Idle: []string{"amd"}, Failed: map[string]string{"b": "it printed\nnonsense"},
	}
	text, err := r.Write()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("node.yaml", text); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		"# f: no firmware at all\n", "      - name: acme\n        # Its process and containers get nothing", "        # allow: {declared: accept}\n",
		"# 5 devices: a, b, c, d and 1 more\n      - name: acme.accelmux.io/npu\n        backend: acme\n        class: npu\n        replicas: 4\n",
		"# When the backend lists devices:\n      - name: nvidia.com/gpu\n", "- name: nvidia.com/mig-{profile}\n", "could not be asked: it printed nonsense\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "idle") {
		t.Errorf("a class without devices is in\n%s", text)
	}
	r.Fitting = nil
	if _, err := r.Write(); err == nil || !strings.Contains(err.Error(), "no backend fits this machine\n\nBackends that list no devices here: amd") {
		t.Error(err)
	}
}

// Verifies that a preset is left out if others have all its devices, and that a comment names the
// devices that resources of two presets have.
func TestOverlap(t *testing.T) {
	device := func(class, address string, nodes ...string) *inventory.Device {
		d := &inventory.Device{Key: inventory.Key{Backend: "device", ID: class + "-" + address}, Class: class, PCIBusID: address, Health: inventory.Health{State: inventory.StateHealthy}}
		for _, node := range nodes {
			d.Edits.DeviceNodes = append(d.Edits.DeviceNodes, inventory.DeviceNode{Path: node, HostPath: node})
		}
		return d
	}
	classes := []string{"gpu", "qat", "sound", "vfio"}
	both := []*inventory.Device{device("qat", "1", "/dev/vfio/1"), device("vfio", "1", "/dev/vfio/1"), device("qat", "2"), device("vfio", "2", "/dev/vfio/2")}
	card := []*inventory.Device{device("gpu", "3", "/dev/dri/card0"), device("sound", "3", "/dev/snd/pcm")}
	for _, c := range []struct {
		devices []*inventory.Device
		want    string
		twice   bool // if they are all written
	}{
		{both, "qat", true},
		{card, "gpu sound", false},
		{append(both, device("vfio", "4", "/dev/vfio/4")), "qat vfio", true},
	} {
		b := &inventory.Backend{Devices: c.devices, Description: inventory.Description{Classes: classes}}
		if got := strings.Join(fitting(classes, b), " "); got != c.want {
			t.Errorf("presets %s, want %s", got, c.want)
		}
		text, err := (&Result{Fitting: []Backend{{Name: "device", Backend: b}}}).Write()
		if err != nil || strings.Contains(string(text), "# Two containers could get these, as a resource above has them, too (let selectors leave them out of one): vfio-1, vfio-2\n") != c.twice {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

// Verifies that a program that hangs is named, while discover waits for it and in the result, and costs a limit.
func TestHangingProgram(t *testing.T) {
	dir, run := t.TempDir(), shortDir(t)
	t.Setenv("TMPDIR", run)
	manifest := "apiVersion: backend.accelmux.io/v1\nkind: Backend\nname: hung\nvendor: X\nversion: 1.0.0\nprotocols: [1]\nclasses: [npu]\ninUse: none\n"
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "accelmux-backend-hung"), []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755), //nolint:gosec // a program
		os.WriteFile(filepath.Join(dir, "accelmux-backend-hung.yaml"), []byte(manifest), 0o600)); err != nil {
		t.Fatal(err)
	}
	tree := devicetree.New(t, "sys/bus/\ndev/null\nproc/1/comm: init\n")
	waited := ""
	result, err := Find(t.Context(), Options{
		BackendDir: dir, Log: slog.New(slog.DiscardHandler), Limit: time.Second,
		Paths:   &backendv1.HostPaths{Sysfs: tree.Host().Sysfs, Devfs: tree.Host().Devfs, Procfs: tree.Host().Procfs},
		Waiting: func(programs []string, limit time.Duration) { waited += fmt.Sprint(programs, limit) },
	})
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "accelmux-backend-hung") + " has listed no devices within 1s, and was ended: it hangs, or the machine is busy"
	if result.Failed["hung"] != want || waited != "[accelmux-backend-hung] 1s" {
		t.Errorf("%q, waited for %q", result.Failed["hung"], waited)
	}
	if _, err := result.Write(); err == nil || !strings.Contains(err.Error(), "The backend hung could not be asked: "+want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// shortDir is a temporary directory for sockets.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "d")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Verifies the errors for a directory without programs.
func TestNoPrograms(t *testing.T) {
	for dir, want := range map[string]string{t.TempDir(): "there are no programs of backends", "/nowhere": "--backend-dir names their directory"} {
		if _, err := Find(t.Context(), Options{BackendDir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Verifies that the GPUs of captured machines are found.
func TestFindAMD(t *testing.T) {
	dir := t.TempDir()
	programs.Build(t, dir+"/", "../../accelmux-backend-amd")
	run := shortDir(t)
	t.Setenv("TMPDIR", run)
	for name, want := range map[string]string{
		"topology-parsing":     "# 2 devices: ",
		"topo-mi210-xgmi-pcie": "# 8 devices: ",
		"topo-mi300-cpx":       "# 63 devices: ",
	} {
		machine, err := amdtree.Capture(sysroot.Captured(t, "amd/"+name+".tar.gz"))
		if err != nil {
			t.Fatal(err)
		}
		tree := amdtree.New(t, machine)
		result, err := Find(t.Context(), Options{BackendDir: dir, Paths: &backendv1.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: filepath.Join(tree.Root, "proc")}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := result.Write()
		if err != nil || !strings.Contains(string(text), want) || !strings.Contains(string(text), "amd.com/gpu") {
			t.Errorf("%s: %v, no %q in\n%s", name, err, want, text)
		}
	}
}

package edits

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/sysroot"
)

// A driver on the host, seen through mounts: every path is the host's.
func TestCDI(t *testing.T) {
	for name, root := range map[string]string{"host": "", "driver container": "run/nvidia/driver"} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, root)
			h.file("", "run/nvidia/driver/dev/nvidiactl") // not the host's own
			set := h.maker(h.cdi(root)).Make(snapshot())
			if set.Err() != nil || len(set.Problems) != 0 {
				t.Fatal(set.Err(), set.Problems)
			}
			e := of(t, set, uuidA)
			want := []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}
			container, onHost := nodePaths(e)
			if !slices.Equal(container, want) || !slices.Equal(onHost, want) {
				t.Errorf("nodes %q from %q, want %q", container, onHost, want)
			}
			mounts := map[string]*sdk.Mount{}
			for _, m := range e.GetMounts() {
				mounts[m.GetContainerPath()] = m
			}
			for path, writable := range map[string]bool{
				"/usr/lib/x86_64-linux-gnu/libcuda.so." + version:                  false,
				"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so." + version:             false,
				"/usr/bin/nvidia-smi":                                              false,
				"/lib/firmware/nvidia/" + version + "/gsp_ga10x.bin":               false,
				"/run/nvidia-persistenced/socket":                                  true,
				"/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so." + version: false,
			} {
				m := mounts[path]
				if needed := strings.Contains(path, "libcuda.so"); m.GetOptional() == needed {
					t.Errorf("mount at %s is optional: %v", path, m.GetOptional())
				}
				if m.GetHostPath() != filepath.Join("/"+root, path) || m.GetWritable() != writable {
					t.Errorf("mount at %s is %v", path, m)
				}
				if slices.Contains(m.GetOptions(), "ro") || slices.Contains(m.GetOptions(), "rw") {
					t.Errorf("mount at %s has the options %q; writable says that", path, m.GetOptions())
				}
			}
			if e.GetEnv()["NVIDIA_VISIBLE_DEVICES"] != "void" || e.GetEnv()["NVIDIA_CTK_LIBCUDA_DIR"] != "/usr/lib/x86_64-linux-gnu" {
				t.Errorf("env %v", e.GetEnv())
			}
			checkNoLeak(t, h, set)
		})
	}
}

// checkNoLeak fails if edits contain a path that exists only in this process's view.
func checkNoLeak(t *testing.T, h host, set *Set) {
	t.Helper()
	hooks := 0
	for uuid, r := range set.results {
		if r.err == nil && strings.Contains(r.edits.String(), h.Root) {
			t.Errorf("%s: a path of this process is in %s", uuid, r.edits)
		}
		for _, hook := range r.edits.GetHooks() {
			hooks++
			if hook.GetPath() != "/usr/bin/nvidia-cdi-hook" {
				t.Errorf("hook %v", hook)
			}
		}
	}
	if hooks == 0 {
		t.Error("there are no hooks")
	}
}

// MIG devices get their GPU's node and their capabilities' nodes, not their GPU's
// memory hook.
func TestInstances(t *testing.T) {
	h := newHost(t, "")
	for name, s := range map[string]Settings{"cdi": h.cdi(""), "runtime": {Mode: "runtime"}} {
		set := h.maker(s).Make(snapshot())
		for _, uuid := range []string{uuidMIG, uuidGfx} {
			e := of(t, set, uuid)
			got, _ := nodePaths(e)
			want := []string{"/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"}
			if len(got) < 5 || !slices.Equal(got[:3], want) {
				t.Errorf("%s %s: %q, want %q first", name, uuid, got, want)
			}
			if strings.Contains(e.String(), uuidB) {
				t.Errorf("%s %s: the GPU's UUID is in %s", name, uuid, e)
			}
		}
	}
}

// If a node is missing, the devices that need it have an error that names it, and the
// others have their edits; a node that is created later is found.
func TestMissingNodes(t *testing.T) {
	everyone := []string{uuidA, uuidB, uuidMIG}
	for name, c := range map[string]struct {
		file    string
		without []string
		says    string
	}{
		"control":     {"dev/nvidiactl", everyone, "device node /dev/nvidiactl is missing"},
		"uvm":         {"dev/nvidia-uvm", everyone, "nvidia-modprobe -u"},
		"tools":       {"dev/nvidia-uvm-tools", nil, ""},
		"modeset":     {"dev/nvidia-modeset", nil, ""},
		"gpu":         {"dev/nvidia0", []string{uuidA}, "device node /dev/nvidia0 is missing"},
		"mig gpu":     {"dev/nvidia1", []string{uuidB, uuidMIG}, "/dev/nvidia1"},
		"capability":  {"dev/nvidia-caps/nvidia-cap4", []string{uuidMIG}, "make it on the host: nvidia-modprobe -f /proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0/access"},
		"access":      {"proc/driver/nvidia/capabilities/gpu1/mig/gi2/access", []string{uuidMIG}, "MIG capability"},
		"proc/device": {"proc/devices", nil, ""},
	} {
		for mode, s := range map[string]func(host) Settings{
			"cdi":     func(h host) Settings { return h.cdi("") },
			"runtime": func(host) Settings { return Settings{Mode: "runtime"} },
		} {
			t.Run(name+" "+mode, func(t *testing.T) {
				h := newHost(t, "")
				h.Remove(c.file)
				m := h.maker(s(h))
				set := m.Make(snapshot())
				for _, uuid := range everyone {
					e, err := set.Of(uuid)
					switch missing := slices.Contains(c.without, uuid); {
					case missing && (err == nil || !strings.Contains(err.Error(), c.says) || e != nil):
						t.Errorf("%s: got %v, %v", uuid, e, err)
					case !missing && (err != nil || len(e.GetDeviceNodes()) == 0):
						t.Errorf("%s: %v", uuid, err)
					}
				}
				if (set.Err() != nil) != (c.without != nil) {
					t.Errorf("the set's error is %v", set.Err())
				}
				h.file("DeviceFileMinor: 3\n", c.file)
				if err := m.Make(snapshot()).Err(); err != nil {
					t.Errorf("after the file came: %v", err)
				}
			})
		}
	}
}

// A driver root without a driver is an error that names the searched directories.
func TestNoDriverFiles(t *testing.T) {
	h := newHost(t, "elsewhere")
	set := h.maker(h.cdi("")).Make(snapshot())
	_, err := set.Of(uuidA)
	if err == nil || !strings.Contains(err.Error(), "driver root / (seen as "+h.Root) {
		t.Errorf("got %v", err)
	}
	if _, err := h.maker(Settings{Mode: "runtime"}).Make(snapshot()).Of(uuidA); err != nil {
		t.Errorf("the mode runtime needs no files: %v", err)
	}
	// A management library alone, as in some images, is no driver.
	h.file("", "usr/lib/x86_64-linux-gnu/libnvidia-ml.so."+version)
	if _, err := h.maker(h.cdi("")).Make(snapshot()).Of(uuidA); err == nil || !strings.Contains(err.Error(), "libcuda.so is not there") {
		t.Errorf("got %v", err)
	}
}

// A driver container whose device nodes are only below its root.
func TestNodesBelowDriverRoot(t *testing.T) {
	h := host{sysroot.NewFiles(t), t}
	h.driver("run/nvidia/driver")
	h.file("", "run/nvidia/driver/dev/nvidiactl", "run/nvidia/driver/dev/nvidia-uvm", "run/nvidia/driver/dev/nvidia0", "dev/null")
	s := snapshot()
	s.GPUs = s.GPUs[:1]
	e := of(t, h.maker(h.cdi("run/nvidia/driver")).Make(s), uuidA)
	container, onHost := nodePaths(e)
	if !slices.Equal(container, []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}) ||
		!slices.Equal(onHost, []string{"/run/nvidia/driver/dev/nvidia0", "/run/nvidia/driver/dev/nvidiactl", "/run/nvidia/driver/dev/nvidia-uvm"}) {
		t.Errorf("nodes %q from %q", container, onHost)
	}
}

// A GPU with incomplete data affects no other.
func TestOddGPUs(t *testing.T) {
	h := newHost(t, "")
	s := snapshot()
	s.GPUs = append(s.GPUs,
		driver.GPU{Index: 2, UUID: "", Minor: -1, Err: errors.New("lost")},
		driver.GPU{Index: 3, UUID: "GPU-no-minor", Minor: -1},
		driver.GPU{Index: 4, UUID: "not a UUID", PCIBusID: strings.Repeat("0", 99), Minor: 0})
	set := h.maker(h.cdi("")).Make(s)
	of(t, set, uuidA)
	for uuid, says := range map[string]string{
		"GPU-no-minor": "minor number", "not a UUID": "not a valid UUID", "GPU-other": "no device", "": "no device",
	} {
		if _, err := set.Of(uuid); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", uuid, err)
		}
	}
}

// nvcdi makes the same edits from a snapshot as from NVML itself.
func TestSameAsNVML(t *testing.T) {
	servers := dgxh100.New()
	h := newHost(t, "")
	s := &driver.Snapshot{DriverVersion: version}
	servers.DriverVersion = version
	for i, d := range servers.Devices {
		dev := d.(*server.Device)
		dev.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
		s.GPUs = append(s.GPUs, driver.GPU{Index: i, UUID: dev.UUID, Minor: dev.Minor})
		h.file("", filepath.Join("dev", "nvidia"+string(rune('0'+i))))
	}
	lib, err := nvcdi.New(nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithNvmlLib(servers), nvcdi.WithDriverRoot(h.Root),
		nvcdi.WithLogger(newLogger()),
		nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils))
	if err != nil {
		t.Fatal(err)
	}
	common, err := lib.GetCommonEdits()
	if err != nil {
		t.Fatal(err)
	}
	p := places{root: place{h.Root, "/"}, dev: place{h.Root, "/"}}
	set := h.maker(h.cdi("")).Make(s)
	for i := range s.GPUs {
		list, err := lib.GetDeviceSpecsByID(s.GPUs[i].UUID)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		own, err := p.convert(&list[0].ContainerEdits, func(s string) { t.Error(s) })
		if err != nil {
			t.Fatal(err)
		}
		all, err := p.convert(common.ContainerEdits, func(s string) { t.Error(s) })
		if err != nil {
			t.Fatal(err)
		}
		byPath := func(a, b *sdk.DeviceNode) bool { return a.GetPath() < b.GetPath() }
		if d := cmp.Diff(merge(all, own), of(t, set, s.GPUs[i].UUID), protocmp.Transform(), protocmp.SortRepeated(byPath)); d != "" {
			t.Errorf("NVML (-), snapshot (+):\n%s", d)
		}
	}
}

// A library that a link leads out of the driver root is left out, and reported.
func TestLinkOutOfRoot(t *testing.T) {
	h := newHost(t, "root")
	outside := host{sysroot.NewFiles(t), t}
	outside.file("", "libnvidia-nvvm70.so.4")
	link := h.Path("root/usr/lib/x86_64-linux-gnu/libnvidia-nvvm70.so.4")
	if err := os.Symlink(outside.Path("libnvidia-nvvm70.so.4"), link); err != nil {
		t.Fatal(err)
	}
	set := h.maker(h.cdi("root")).Make(snapshot())
	if strings.Contains(of(t, set, uuidA).String(), "nvvm") {
		t.Error("it is mounted")
	}
	if len(set.Problems) != 1 || !strings.Contains(set.Problems[0], outside.Root) {
		t.Errorf("problems: %q", set.Problems)
	}
}

// A panic in the toolkit is an error of one device.
func TestGuard(t *testing.T) {
	l := &library{}
	l.know(snapshot())
	err := guard(func() error { _, ret := l.DeviceGetCount(); return ret })
	if err == nil || !strings.Contains(err.Error(), "nvidia-container-toolkit") {
		t.Errorf("got %v", err)
	}
}

func of(t *testing.T, set *Set, uuid string) *sdk.Edits {
	t.Helper()
	e, err := set.Of(uuid)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A set begun for one driver is made again for another; Wait needs no snapshot.
func TestBegun(t *testing.T) {
	h := newHost(t, "")
	m := h.maker(h.cdi(""))
	want := m.Make(snapshot())
	for _, version := range []string{snapshot().DriverVersion, "1.2.3"} {
		got := m.Begin(version).Make(snapshot())
		if got.Err() != nil {
			t.Fatal(got.Err())
		}
		if diff := cmp.Diff(of(t, want, uuidA), of(t, got, uuidA), protocmp.Transform()); diff != "" {
			t.Errorf("begun for version %s: %s", version, diff)
		}
	}
	m.Begin("").Wait()
}

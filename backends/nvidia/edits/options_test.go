package edits

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/sdk"
)

// Options add their nodes and mounts to every device; in the mode "runtime" they set the
// NVIDIA runtime's variables.
func TestOptions(t *testing.T) {
	h := newHost(t, "")
	h.file("", "dev/nvidia-fs0", "dev/nvidia-fs1", "dev/infiniband/uverbs0", "dev/infiniband/rdma_cm", "dev/gdrdrv",
		"dev/nvidia-caps-imex-channels/channel0", "dev/nvidia-caps-imex-channels/channel7", "etc/cufile.json", "run/udev/data/x", "run/udev/control")
	added := []string{
		"/dev/gdrdrv", "/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0", "/dev/nvidia-caps-imex-channels/channel0",
		"/dev/nvidia-caps-imex-channels/channel7", "/dev/nvidia-fs0", "/dev/nvidia-fs1",
	}
	env := map[string]string{
		"NVIDIA_VISIBLE_DEVICES": uuidA, "NVIDIA_GDS": "enabled", "NVIDIA_MOFED": "enabled", "NVIDIA_GDRCOPY": "enabled",
		"NVIDIA_IMEX_CHANNELS": "0,7",
	}
	for _, mode := range []string{"cdi", "runtime"} {
		s := h.cdi("")
		s.Mode = mode
		plain, _ := nodePaths(of(t, h.maker(s).Make(snapshot()), uuidA))
		s.GDS, s.MOFED, s.GDRCopy, s.IMEX = true, true, true, IMEX{Channels: []uint32{0, 7}, Required: true}
		set := h.maker(s).Make(snapshot())
		e := of(t, set, uuidA)
		got, _ := nodePaths(e)
		slices.Sort(got)
		got = slices.DeleteFunc(got, func(p string) bool { return slices.Contains(plain, p) })
		if !slices.Equal(got, added) || len(set.Problems) != 0 {
			t.Errorf("%s: %q came, want %q; problems %q", mode, got, added, set.Problems)
		}
		if mode == "runtime" && !maps.Equal(e.GetEnv(), env) {
			t.Errorf("env %v, want %v", e.GetEnv(), env)
		}
		if mode == "cdi" && len(e.GetEnv()) != 2 {
			t.Errorf("env %v", e.GetEnv())
		}
		if text := e.String(); !strings.Contains(text, "/etc/cufile.json") || !strings.Contains(text, `"/run/udev/data"`) || strings.Contains(text, `"/run/udev"`) || strings.Contains(text, h.Root) {
			t.Errorf("%s: mounts %v", mode, e.GetMounts())
		}
	}
}

// An option that the node does not have is a problem of the node; a missing IMEX channel
// that is required is a fault of its devices.
func TestMissingOptions(t *testing.T) {
	h := newHost(t, "")
	s := h.cdi("")
	s.GDS, s.MOFED, s.GDRCopy, s.IMEX = true, true, true, IMEX{Channels: []uint32{3}}
	set := h.maker(s).Make(snapshot())
	of(t, set, uuidA)
	text := strings.Join(set.Problems, "\n")
	for _, part := range []string{"gds", "/dev/nvidia-fs*", "mofed", "gdrcopy", "/dev/gdrdrv", "IMEX channel 3", "nvidia-modprobe -i"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
	if len(set.Problems) != 4 {
		t.Errorf("%d problems: %s", len(set.Problems), text)
	}
	s.IMEX.Required = true
	if _, err := h.maker(s).Make(snapshot()).Of(uuidA); err == nil || !strings.Contains(err.Error(), "IMEX channel 3 is required") {
		t.Errorf("got %v", err)
	}
}

// Several devices are combined by the joined variable, or by mounts: then the variable is the same
// for all, and each has its own mount. The variable names devices by NVML's indices if DeviceIDs is
// index. With CDI it takes the place of "void".
func TestVisibleDevices(t *testing.T) {
	h := newHost(t, "")
	s := snapshot()
	s.GPUs[1].Instances[0].Index = 3
	const dir = "/var/run/nvidia-container-devices"
	indices := map[string]string{uuidA: "0", uuidB: "1", uuidMIG: "1:3"}
	for _, c := range []struct{ mode, ids string }{{"runtime", ""}, {"runtime", "index"}, {"cdi", "index"}} {
		settings := h.cdi("")
		settings.Mode, settings.VisibleDevices, settings.DeviceIDs = c.mode, "env", c.ids
		byEnv := h.maker(settings).Make(s)
		settings.VisibleDevices = "mounts"
		byMounts := h.maker(settings).Make(s)
		for uuid, want := range indices {
			if c.ids == "" {
				want = uuid
			}
			e := of(t, byEnv, uuid)
			if e.GetEnv()[envDevices] != want || e.GetEnvSeparators()[envDevices] != "," || len(e.GetDeviceNodes()) == 0 {
				t.Errorf("%v, by env: %v", c, e)
			}
			if plain := len(e.GetMounts()) == 0 && len(e.GetHooks()) == 0; plain != (c.mode == "runtime") {
				t.Errorf("%v: mounts and hooks are %v, %v", c, e.GetMounts(), e.GetHooks())
			}
			e = of(t, byMounts, uuid)
			if e.GetEnv()[envDevices] != dir || len(e.GetEnvSeparators()) != 0 || !slices.ContainsFunc(e.GetMounts(), func(m *sdk.Mount) bool {
				return m.GetContainerPath() == dir+"/"+want && m.GetHostPath() == "/dev/null"
			}) {
				t.Errorf("%v, by mounts: %v", c, e)
			}
		}
	}
}

// Verifies that the device nodes can be left to the NVIDIA runtime, and that a device is still
// not allocated while they are missing.
func TestOmitDeviceNodes(t *testing.T) {
	h := newHost(t, "")
	s := Settings{Mode: "runtime", OmitDeviceNodes: true}
	set := h.maker(s).Make(snapshot())
	for _, uuid := range []string{uuidA, uuidMIG} {
		e := of(t, set, uuid)
		if len(e.GetDeviceNodes()) != 0 || e.GetEnv()[envDevices] != uuid || len(e.GetEnv()) <= len(e.GetEnvSeparators()) {
			t.Errorf("%v", e)
		}
	}
	h.Remove("dev/nvidia0")
	if _, err := h.maker(s).Make(snapshot()).Of(uuidA); err == nil {
		t.Error("a GPU without its node has edits")
	}
}

// Verifies that device nodes come from the dev root if there is one, and the driver's files from
// the driver root.
func TestDevRoot(t *testing.T) {
	h := newHost(t, "run/nvidia/driver")
	h.file("", "other/dev/nvidiactl", "other/dev/nvidia-uvm", "other/dev/nvidia0")
	s := h.cdi("run/nvidia/driver")
	s.DevRoot, s.DevRootMount = "/run/other", h.Path("other")
	e := of(t, h.maker(s).Make(snapshot()), uuidA)
	container, host := nodePaths(e)
	if !slices.Equal(container, []string{"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm"}) || host[0] != "/run/other/dev/nvidia0" {
		t.Errorf("nodes %q from %q", container, host)
	}
	if text := e.String(); !strings.Contains(text, "/run/nvidia/driver/usr/lib") {
		t.Errorf("%s", text)
	}
}

// Verifies that a container gets what the lists of a Tegra's system name and the system has.
func TestTegra(t *testing.T) {
	h := newHost(t, "")
	s := h.cdi("")
	s.Mode = "tegra"
	orin := &driver.Snapshot{DriverVersion: version, GPUs: []driver.GPU{{UUID: "54dc0ad5-8bd0-5a1b-8f4c-2a1fd2b7c0de", Minor: -1}, {Index: 1, UUID: uuidA}}}
	fails := func(uuid, want string) {
		t.Helper()
		if _, err := h.maker(s).Make(orin).Of(uuid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	fails(orin.GPUs[0].UUID, "there are no files ")
	const dir = "etc/nvidia-container-runtime/host-files-for-container.d/"
	h.file("dev, /dev/nvmap\ndev, /dev/nvgpu/igpu0/ctrl\ndev, /dev/absent\n", dir+"devices.csv")
	h.file("lib, /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1\nsym, /usr/lib/aarch64-linux-gnu/nvidia/libcuda.so\nlib, /usr/lib/absent.so\n", dir+"drivers.csv")
	fails(orin.GPUs[0].UUID, "none of their device nodes exists")
	h.file("", "dev/nvmap", "dev/nvgpu/igpu0/ctrl")
	fails(orin.GPUs[0].UUID, "libcuda.so is not there")
	h.file("", "usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1")
	e := of(t, h.maker(s).Make(orin), orin.GPUs[0].UUID)
	container, host := nodePaths(e)
	slices.Sort(container)
	slices.Sort(host)
	want := []string{"/dev/nvgpu/igpu0/ctrl", "/dev/nvmap"}
	if !slices.Equal(container, want) || !slices.Equal(host, want) {
		t.Errorf("nodes %q from %q", container, host)
	}
	if m := e.GetMounts(); len(m) != 1 || m[0].GetHostPath() != "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1" || m[0].GetWritable() {
		t.Errorf("mounts %v", m)
	}
	if len(e.GetHooks()) == 0 || strings.Contains(e.String(), h.Root) || strings.Contains(e.String(), "absent") {
		t.Errorf("%v", e)
	}
	fails(uuidA, "serves only the GPU that NVML lists first")
}

// Hooks can be left out, and have the host's path.
func TestHooks(t *testing.T) {
	h := newHost(t, "")
	s := h.cdi("")
	s.Hook = "/usr/local/nvidia/toolkit/nvidia-cdi-hook"
	s.DisabledHooks = []string{"apply-cuda-memory-limits", "enable-cuda-compat"}
	e := of(t, h.maker(s).Make(snapshot()), uuidA)
	for _, hook := range e.GetHooks() {
		if hook.GetPath() != s.Hook || slices.Contains(s.DisabledHooks, hook.GetArgs()[1]) {
			t.Errorf("hook %v", hook)
		}
	}
	s.DisabledHooks = []string{"all"}
	none := of(t, h.maker(s).Make(snapshot()), uuidA)
	if len(e.GetHooks()) == 0 || len(none.GetHooks()) != 0 {
		t.Errorf("%d hooks with two disabled, %d with all", len(e.GetHooks()), len(none.GetHooks()))
	}
}

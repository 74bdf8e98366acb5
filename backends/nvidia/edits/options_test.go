package edits

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// Options add their nodes and mounts to every device, and tell the NVIDIA runtime
// in its mode.
func TestOptions(t *testing.T) {
	h := newHost(t, "")
	h.file("", "dev/nvidia-fs0", "dev/nvidia-fs1", "dev/infiniband/uverbs0", "dev/infiniband/rdma_cm", "dev/gdrdrv",
		"dev/nvidia-caps-imex-channels/channel0", "dev/nvidia-caps-imex-channels/channel7", "etc/cufile.json", "run/udev/x")
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
		if text := e.String(); !strings.Contains(text, "/etc/cufile.json") || !strings.Contains(text, "/run/udev") || strings.Contains(text, h.dir) {
			t.Errorf("%s: mounts %v", mode, e.GetMounts())
		}
	}
}

// An option that the node does not have is a problem of the node, an IMEX channel
// that is required a fault of its devices.
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

// Without CDI several devices add up by the variable, which is joined, or by mounts:
// then the variable is the same for all, and each has a mount of its own.
func TestVisibleDevices(t *testing.T) {
	h := newHost(t, "")
	byEnv := h.maker(Settings{Mode: "runtime"}).Make(snapshot())
	byMounts := h.maker(Settings{Mode: "runtime", VisibleDevices: "mounts"}).Make(snapshot())
	for _, uuid := range []string{uuidA, uuidMIG} {
		e := of(t, byEnv, uuid)
		if e.GetEnv()["NVIDIA_VISIBLE_DEVICES"] != uuid || e.GetEnvSeparators()["NVIDIA_VISIBLE_DEVICES"] != "," || len(e.GetMounts()) != 0 || len(e.GetHooks()) != 0 {
			t.Errorf("by env: %v", e)
		}
		e = of(t, byMounts, uuid)
		const dir = "/var/run/nvidia-container-devices"
		if e.GetEnv()["NVIDIA_VISIBLE_DEVICES"] != dir || len(e.GetMounts()) != 1 ||
			len(e.GetEnvSeparators()) != 0 || e.GetMounts()[0].GetContainerPath() != dir+"/"+uuid || e.GetMounts()[0].GetHostPath() != "/dev/null" {
			t.Errorf("by mounts: %v", e)
		}
	}
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

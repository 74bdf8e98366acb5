package main

import (
	"os"
	"path/filepath"
	"testing"
)

// Verifies that what agents leave in kubelet's directories is seen there, hidden or not:
// sockets that kubelet is not connected to, and files that are none; and that kubelet's
// own files are nobody's.
func TestLeftAtKubelet(t *testing.T) {
	w := &world{dir: t.TempDir(), m: newModel()}
	w.kubelet = newStandIn(w.kubeletDir(), newWatch(), func() error { return nil })
	if err := os.MkdirAll(w.path("disk"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"accelmux-example.com_gpu-12345678-1.sock":      leakedSocket,
		".accelmux-example.com_gpu-12345678-1.sock":     leakedSocket,
		".accelmux-example.com_gpu-12345678-1.sock.tmp": leakedFile,
		"accelmux":                    leakedFile,
		"kubelet.sock":                "",
		"kubelet_internal_checkpoint": "",
		".123456":                     "",
	} {
		for _, dir := range []string{w.kubelet.PluginDir(), w.kubelet.RegistryDir()} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			o := good()
			o.Connections, o.Sockets = 0, w.sockets()
			o.Strays = w.strays(o)
			fired := ""
			if broken := check(o, func(invariant) bool { return true }); broken != nil {
				fired = broken.name
			}
			if fired != want {
				t.Errorf("%s: %q fires, want %q", path, fired, want)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

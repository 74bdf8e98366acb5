package amd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/devnode"
	"github.com/accelmux/accelmux/test/host"
)

// devfs returns a directory with the nodes of a partition, as plain files.
func devfs(t *testing.T, mode os.FileMode, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "dri"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A container gets the groups of the nodes where it needs them, each once and never
// root's.
func TestGroups(t *testing.T) {
	p := gpu.Partition{Render: 130, Card: 2}
	for _, c := range []struct {
		mode   os.FileMode
		gid    int
		groups devnode.Groups
		want   int
	}{
		{0o660, 44, devnode.Auto, 1}, {0o660, 44, devnode.None, 0}, {0o666, 44, devnode.Auto, 0}, {0o600, 44, devnode.Auto, 0}, {0o660, 0, devnode.Auto, 0},
	} {
		dev := devfs(t, c.mode, "kfd", "dri/renderD130", "dri/card2")
		for _, name := range []string{"dri/renderD130", "dri/card2", "kfd"} {
			if err := os.Chown(filepath.Join(dev, name), -1, c.gid); err != nil {
				host.Lacks(t, "only root may give files to a group: %v", err)
			}
		}
		edits, err := editsOf(devnode.Settings{Groups: c.groups}, dev, p)
		if err != nil || len(edits.GetAdditionalGids()) != c.want || len(edits.GetDeviceNodes()) != 3 {
			t.Errorf("%v: %v, %v", c, edits, err)
		}
	}
}

// A node that is missing, or belongs to another partition, is given to no container.
func TestWrongNodes(t *testing.T) {
	p := gpu.Partition{Render: 130, Card: drm.None}
	settings := devnode.Settings{Groups: devnode.Auto}
	refused := func(dev, want string) {
		t.Helper()
		if edits, err := editsOf(settings, dev, p); edits != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, want an error with %q", edits, err, want)
		}
	}
	refused(devfs(t, 0o660, "dri/renderD130"), "/dev/kfd is missing")
	refused(devfs(t, 0o660, "kfd"), "/dev/dri/renderD130 is missing")
	dev := devfs(t, 0o660, "kfd")
	node := filepath.Join(dev, "dri/renderD130")
	if err := os.Mkdir(node, 0o755); err != nil {
		t.Fatal(err)
	}
	refused(dev, "is no device")
	if err := os.Remove(node); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(node, unix.S_IFCHR|0o660, int(unix.Mkdev(drmMajor, 131))); err != nil {
		host.Lacks(t, "only root may make device nodes: %v", err)
	}
	refused(dev, "is the device 226:131, want 226:130")
	p.Render = 131
	if err := os.Rename(node, filepath.Join(dev, "dri/renderD131")); err != nil {
		t.Fatal(err)
	}
	if edits, err := editsOf(settings, dev, p); err != nil || len(edits.GetDeviceNodes()) != 2 {
		t.Errorf("%v, %v", edits, err)
	}
}

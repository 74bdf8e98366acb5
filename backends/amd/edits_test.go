package amd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/backends/amd/drm"
	"github.com/accelmux/accelmux/backends/amd/gpu"
	"github.com/accelmux/accelmux/backends/devnode"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/amdtree"
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

// What a container gets follows new settings with the first inventory of their revision.
func TestEditsFollowSettings(t *testing.T) {
	r := newRig(t, amdtree.NewVega10())
	_, renders := r.tree.Minors(0)
	node := filepath.Join(r.tree.Devfs(), fmt.Sprintf("dri/renderD%d", renders[0]))
	if err := errors.Join(os.Chmod(node, 0o660), os.Chown(node, -1, 44)); err != nil {
		host.Lacks(t, "only root may give files to a group: %v", err)
	}
	gids := func(n int) func(*backendv1.Inventory) bool {
		return func(inv *backendv1.Inventory) bool {
			return inv.GetSettingsRevision() == r.revision && len(inv.GetDevices()[0].GetEdits().GetAdditionalGids()) == n
		}
	}
	r.watch(quick)
	r.inventory("the group", gids(1))
	r.configure(strings.Replace(quick, `"poll"`, `"edits": {"groups": "none"}, "poll"`, 1))
	r.inventory("none", func(inv *backendv1.Inventory) bool {
		if inv.GetSettingsRevision() == r.revision && !gids(0)(inv) {
			t.Errorf("the new settings' inventory has %v", inv.GetDevices()[0].GetEdits())
		}
		return gids(0)(inv)
	})
}

// A card without a driver has that fault, even if its nodes disappeared first and had one.
func TestNodesGoBeforeTheCard(t *testing.T) {
	m := amdtree.NewMI210()
	r := start(t, m, quick)
	r.inventory("all GPUs", healthy(8))
	_, renders := r.tree.Minors(5)
	r.do(r.tree.Spoil(fmt.Sprintf("dev/dri/renderD%d", renders[0]), amdtree.Damages["missing"]))
	r.inventory("the missing node", onlyBad(8, m.GPUs[5].Address.String(), "node-missing"))
	r.do(r.tree.ReloadDriver())
	r.inventory("that the driver is away", func(inv *backendv1.Inventory) bool {
		return len(inv.GetDevices()) == 8 && !slices.ContainsFunc(inv.GetDevices(), func(d *backendv1.Device) bool {
			return d.GetHealth().GetCode() != "driver-unbound"
		})
	})
}

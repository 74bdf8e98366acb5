package inventory

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	testhost "github.com/accelmux/accelmux/test/host"
)

// hostNodes is a host whose /dev has regular files for nodes.
func hostNodes(t *testing.T) HostNodes {
	t.Helper()
	root := t.TempDir()
	for _, name := range []string{"dev/acme0", "dev/dri/card0", "dev/sda", "dev/disk/by-id/x", "run/driver/dev/acme1"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"acme-link": "acme0", "abs": "/dev/acme0", "dri/by-path": "../dri", "twice": "abs", "up": "../run/driver/dev/acme1",
		"harmless": "sda", "harmless-abs": "/dev/sda", "away": "/run/elsewhere/sda", "loop": "loop", "dir": "disk", "root": "/", "self": "/dev",
	} {
		if err := os.Symlink(target, filepath.Join(root, "dev", link)); err != nil {
			t.Fatal(err)
		}
	}
	return HostNodes{Devfs: filepath.Join(root, "dev")}
}

// Verifies that links are followed as on the host, wherever its /dev is for this process, and
// that their targets are checked.
func TestHostNodes(t *testing.T) {
	host := hostNodes(t)
	for path, want := range map[string]string{
		"/dev/acme0": "/dev/acme0", "/dev/acme-link": "/dev/acme0", "/dev/abs": "/dev/acme0", "/dev/twice": "/dev/acme0",
		"/dev/dri/by-path/card0": "/dev/dri/card0", "/dev/up": "/run/driver/dev/acme1", "/run/driver/dev/acme1": "/run/driver/dev/acme1",
	} {
		if node, err := host.Find(path); err != nil || node.Path != want || node.GID != uint32(os.Getgid()) {
			t.Errorf("%s is %+v, want %s (%v)", path, node, want, err)
		}
	}
	for path, want := range map[string]string{
		"/dev/harmless": "link to \"/dev/sda\"", "/dev/harmless-abs": "link to \"/dev/sda\"", "/dev/dir/by-id/x": "link to \"/dev/disk/by-id/x\"",
		"/dev/away": "is not visible to the agent", "/dev/loop": "too many symbolic links", "/dev/dri": "a directory", "/dev/root": "is the directory", "/dev/self": "is the directory",
	} {
		if node, err := host.Find(path); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %+v and the error %v, want one with %s", path, node, err, want)
		}
	}
	for _, path := range []string{"/dev/acme7", "/run/driver/dev/acme7"} {
		if _, err := host.Find(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Verifies that a block device is refused by its type, by any name: in /dev, behind a link, and
// in a visible directory outside /dev. A character device is not.
func TestBlockDevicesAreRefused(t *testing.T) {
	host := hostNodes(t)
	dev, driver := host.Devfs, filepath.Join(filepath.Dir(host.Devfs), "run/driver/dev")
	for name, kind := range map[string]uint32{
		filepath.Join(dev, "acme1"): unix.S_IFCHR, filepath.Join(dev, "acme2"): unix.S_IFBLK,
		filepath.Join(driver, "acme3"): unix.S_IFCHR, filepath.Join(driver, "acme4"): unix.S_IFBLK,
	} {
		if err := unix.Mknod(name, kind|0o600, int(unix.Mkdev(1, 3))); errors.Is(err, unix.EPERM) {
			testhost.Lacks(t, "mknod is not allowed here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"link2": "acme2", "link4": "/run/driver/dev/acme4"} {
		if err := os.Symlink(target, filepath.Join(dev, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, refused := range map[string]bool{
		"/dev/acme1": false, "/run/driver/dev/acme3": false,
		"/dev/acme2": true, "/dev/link2": true, "/run/driver/dev/acme4": true, "/dev/link4": true,
	} {
		node, err := host.Find(path)
		if refused && (err == nil || !strings.Contains(err.Error(), "a block device")) || !refused && (err != nil || node.Path != path) {
			t.Errorf("%s is %+v and the error %v, refused: %v", path, node, err, refused)
		}
	}
}

// Verifies that a device whose node leads to a disk is left out, whatever the node's name.
func TestNodesAreCheckedByWhatTheyAre(t *testing.T) {
	policy := testPolicy
	policy.Nodes = hostNodes(t)
	parse := func(path string) error {
		_, _, err := ParseEdits(policy, &backendv1.ContainerEdits{DeviceNodes: []*backendv1.DeviceNode{{Path: path}}})
		return err
	}
	for _, path := range []string{"/dev/acme0", "/dev/acme-link", "/dev/not-there-yet"} {
		if err := parse(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"/dev/harmless", "/dev/away", "/dev/dri"} {
		var refused *policyError
		if err := parse(path); !errors.As(err, &refused) {
			t.Errorf("%s is not refused: %v", path, err)
		}
	}
}

// Verifies that a container gets the groups that own its nodes, and those that the
// configuration names, and that others, such as those of disks, are left out.
func TestAdditionalGroups(t *testing.T) {
	policy := testPolicy
	policy.Nodes, policy.Allowed.GIDs = hostNodes(t), []uint32{77}
	own := uint32(os.Getgid())
	const disk, kmem, shadow = 6, 15, 42
	want := []uint32{own, 77}
	if own == 0 {
		want, own = []uint32{77}, 77 // root's is refused as such
	}
	e, remark, err := ParseEdits(policy, &backendv1.ContainerEdits{
		DeviceNodes:    []*backendv1.DeviceNode{{Path: "/dev/acme0"}},
		AdditionalGids: []uint32{own, 77, disk, kmem, shadow},
	})
	slices.Sort(want)
	if err != nil || !slices.Equal(e.AdditionalGIDs, want) || len(e.DeviceNodes) != 1 {
		t.Errorf("groups %v with %d nodes, want %v with 1: %v", e.AdditionalGIDs, len(e.DeviceNodes), want, err)
	}
	if !strings.Contains(remark, "[6 15 42] own none") {
		t.Errorf("the remark is %q", remark)
	}
	policy.Declared.GIDs, policy.AcceptDeclared = []uint32{77, disk, kmem}, true
	if e, remark, err = ParseEdits(policy, &backendv1.ContainerEdits{AdditionalGids: []uint32{77, disk, kmem}}); err != nil ||
		!slices.Equal(e.AdditionalGIDs, []uint32{77}) || !strings.Contains(remark, "allow: {gids: [6, 15]}") {
		t.Errorf("declared groups: %v, remark %q: %v", e.AdditionalGIDs, remark, err)
	}
}

// Verifies that an optional mount that is not allowed is left out, with a problem, and that a
// device with a mandatory one is.
func TestOptionalMounts(t *testing.T) {
	mounts := []*backendv1.Mount{{HostPath: "/opt/acme/lib.so", ContainerPath: "/lib.so"}}
	for _, name := range []string{"/a", "/b", "/c", "/d", "/e"} {
		mounts = append(mounts, &backendv1.Mount{HostPath: "/etc" + name, ContainerPath: name, Optional: true})
	}
	s, _ := newTestStore(t)
	device := wireDevice("GPU-0")
	device.Edits.Mounts = mounts
	b := mustReport(t, s, inv(1, device))
	if len(b.Devices) != 1 || len(b.Devices[0].Edits.Mounts) != 1 {
		t.Fatalf("devices %s with problems %v", ids(b.Devices), b.Problems)
	}
	if len(b.Problems) != 1 || !strings.Contains(b.Problems[0].Message, "allow: {mounts: [/etc/a, /etc/b, /etc/c, /etc/d, /etc/e]}") {
		t.Errorf("problems %v", b.Problems)
	}
	mounts[1].Optional = false
	if b = mustReport(t, s, inv(2, device)); len(b.Devices) != 0 {
		t.Errorf("a mount that is needed and not allowed leaves %s", ids(b.Devices))
	}
}

// Verifies that mounts that are declared read-only cannot be writable.
func TestReadOnlyMounts(t *testing.T) {
	declared := EditScope{Mounts: []string{"/run/acme/socket"}, ReadOnlyMounts: []string{"/usr/lib/**"}}
	policy := Policy{Allowed: EditScope{Mounts: []string{"/**"}}, Declared: declared}
	for name, allowed := range map[string][2]bool{"/usr/lib/x.so": {true, false}, "/run/acme/socket": {true, true}, "/etc/x": {false, false}} {
		for i, writable := range []bool{false, true} {
			if err := policy.checkMount(name, writable); (err == nil) != allowed[i] {
				t.Errorf("%s, writable %v: %v", name, writable, err)
			}
		}
	}
}

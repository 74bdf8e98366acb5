package drm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/pci"
	"github.com/accelmux/accelmux/test/amdtree"
	"github.com/accelmux/accelmux/test/sysroot"
)

func must(t *testing.T, tree *amdtree.Tree) Class {
	t.Helper()
	c, err := Read(tree.Sysfs())
	if err != nil || c.Torn || len(c.Problems) > 0 {
		t.Fatalf("%v, torn %t, problems %v", err, c.Torn, c.Problems)
	}
	return c
}

// Each device has the minors that the driver got for it, in all PCI domains, with
// minors of others in between, whichever way platform devices are named.
func TestDevices(t *testing.T) {
	for _, dotted := range []bool{false, true} {
		m := amdtree.NewMixed()
		m.Dotted = dotted
		tree := amdtree.New(t, m)
		var platform, onPCI []Device
		for _, d := range must(t, tree).Devices {
			switch {
			case d.IsPartition():
				platform = append(platform, d)
			case d.Card != None && d.Render != None:
				onPCI = append(onPCI, d)
			}
		}
		var want []Device
		others := 0
		for gpu, g := range m.GPUs {
			cards, renders := tree.Minors(gpu)
			want = append(want, Device{Name: g.Address.String(), Address: g.Address, IsPCI: true, Card: cards[0], Render: renders[0]})
			for i, d := range platform[others : others+len(cards)-1] {
				name := fmt.Sprintf("amdgpu_xcp%s%d", map[bool]string{false: "_", true: "."}[dotted], others+i)
				at := slices.IndexFunc(platform, func(d Device) bool { return d.Name == name })
				if at < 0 || platform[at].Card != cards[i+1] || platform[at].Render != renders[i+1] || d.IsPCI {
					t.Errorf("%s is not among %v with the minors %d and %d", name, platform, cards[i+1], renders[i+1])
				}
			}
			others += len(cards) - 1
		}
		slices.SortFunc(want, func(a, b Device) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff(want, onPCI); diff != "" {
			t.Errorf("PCI devices differ (-want +got):\n%s", diff)
		}
		if len(platform) != others || others != 28 {
			t.Errorf("%d platform devices, want %d", len(platform), others)
		}
	}
}

// A card without a render node, such as a BMC, has none; connectors are no cards.
func TestOtherCards(t *testing.T) {
	m := amdtree.NewVega10()
	m.Cards, m.Renders = 2, []int{130}
	got := must(t, amdtree.New(t, m)).Devices
	at := func(device uint8, bus uint8) pci.Address { return pci.Address{Bus: bus, Device: device} }
	want := []Device{
		{Name: "0000:01:00.0", Address: at(0, 1), IsPCI: true, Card: 0, Render: None},
		{Name: "0000:01:01.0", Address: at(1, 1), IsPCI: true, Card: 1, Render: None},
		{Name: "0000:02:00.0", Address: at(0, 2), IsPCI: true, Card: None, Render: 130},
		{Name: "0000:19:00.0", Address: at(0, 0x19), IsPCI: true, Card: 2, Render: 128},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices differ (-want +got):\n%s", diff)
	}
}

// A damaged minor has its device left out, with the file's name, and no other.
func TestDamage(t *testing.T) {
	link := func(to string) sysroot.Damage {
		return func(path string) error { return errors.Join(os.Remove(path), os.Symlink(to, path)) }
	}
	write := func(text string) sysroot.Damage {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	for name, c := range map[string]struct {
		file   string
		damage sysroot.Damage
		want   string
	}{
		"loop":           {"renderD131", sysroot.Loop, `renderD131 leads to "renderD131"`},
		"dangling":       {"renderD131", sysroot.Dangling, "leads to \"../nothing/here\""},
		"gone":           {"renderD131", link("../../devices/platform/amdgpu_xcp_99/drm/renderD131"), "renderD131/dev: no such file"},
		"another minor":  {"renderD131", link("../../devices/platform/amdgpu_xcp_1/drm/renderD130"), "want the device and then drm/renderD131"},
		"no device":      {"renderD131", link("../../drm/renderD131"), "want the device and then drm/renderD131"},
		"fifo":           {"renderD131", sysroot.FIFO, "renderD131: invalid argument"},
		"directory":      {"renderD131", sysroot.Directory, "renderD131: invalid argument"},
		"dev is a fifo":  {"renderD131/dev", sysroot.FIFO, "renderD131/dev: not a regular file"},
		"dev is cut off": {"renderD131/dev", sysroot.Truncate, `renderD131/dev is "226:13", want the minor 131`},
		"dev is another": {"renderD131/dev", write("226:130\n"), `renderD131/dev is "226:130", want the minor 131`},
		"dev is binary":  {"renderD131/dev", sysroot.Binary, "want the minor 131"},
		"dev is huge":    {"renderD131/dev", sysroot.HugeNumber, "want the minor 131"},
		"dev is endless": {"renderD131/dev", sysroot.Endless, "renderD131/dev: longer than can be"},
	} {
		tree := amdtree.New(t, amdtree.NewMI210())
		before := must(t, tree).Devices
		if err := tree.Spoil("sys/class/drm/"+c.file, c.damage); err != nil {
			t.Fatal(err)
		}
		got, err := Read(tree.Sysfs())
		if err != nil || len(got.Problems) != 1 || got.Problems[0].Minor != "renderD131" || !strings.Contains(got.Problems[0].Err.Error(), c.want) {
			t.Errorf("%s: problems %v, %v; want %q", name, got.Problems, err, c.want)
		}
		// If the link does not name the device, it has only its card minor.
		damaged := func(d Device) bool { return d.Card == 4 }
		if diff := cmp.Diff(slices.DeleteFunc(before, damaged), slices.DeleteFunc(slices.Clone(got.Devices), damaged)); diff != "" {
			t.Errorf("%s: other devices differ:\n%s", name, diff)
		}
		if i := slices.IndexFunc(got.Devices, damaged); i >= 0 && got.Devices[i].Render != None {
			t.Errorf("%s: the device is there with a render node: %v", name, got.Devices[i])
		}
	}
}

// A device with two render minors gets neither.
func TestTwoMinors(t *testing.T) {
	tree := amdtree.New(t, amdtree.NewVega10())
	dir := filepath.Join(tree.Device(0), "drm/renderD140")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "dev"), []byte("226:140\n"), 0o600),
		os.Symlink("../../devices/pci0000:18/0000:18:01.1/0000:19:00.0/drm/renderD140", filepath.Join(tree.Sysfs(), "class/drm/renderD140"))); err != nil {
		t.Fatal(err)
	}
	got, err := Read(tree.Sysfs())
	if err != nil || len(got.Devices) != 0 || len(got.Problems) != 1 || !strings.Contains(got.Problems[0].Err.Error(), "two render minors, 128 and 140") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTorn(t *testing.T) {
	tree := amdtree.New(t, amdtree.NewMixed())
	for name, change := range map[string]func() error{
		"":        func() error { return nil },
		"gone":    func() error { return tree.Unplug(3) },
		"version": func() error { return os.RemoveAll(filepath.Join(tree.Sysfs(), "class/drm/version")) },
	} {
		got, err := read(tree.Sysfs(), func() {
			if err := change(); err != nil {
				t.Error(err)
			}
		})
		if err != nil || got.Torn != (name == "gone") {
			t.Errorf("%q: torn %t, %v", name, got.Torn, err)
		}
	}
	if got, err := read(tree.Sysfs(), func() { _ = os.RemoveAll(filepath.Join(tree.Sysfs(), "class/drm")) }); err != nil || !got.Torn {
		t.Errorf("without DRM at the end: torn %t, %v", got.Torn, err)
	}
	if _, err := Read(tree.Sysfs()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without DRM: %v", err)
	}
}

// A malformed link has no effect but on its device, which is named by it.
func FuzzDevice(f *testing.F) {
	for _, s := range []string{
		"../../devices/pci0000:62/0000:62:01.1/0000:63:00.0/drm/renderD128", "renderD128", "/drm/renderD128", "../../../drm/renderD128",
		"////drm/renderD128", "a/b/drm/renderD128", "\x80/\n/drm/renderD128",
	} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, target string) {
		path := filepath.Join(dir, "renderD128")
		if target == "" || os.Symlink(target, path) != nil {
			return // no link can be so
		}
		defer func() { _ = os.Remove(path) }()
		name, err := device(dir, minor{name: "renderD128", number: 128, render: true})
		if err == nil || strings.Contains(name, "/") || (name != "" && !strings.HasSuffix(target, name+"/drm/renderD128")) {
			t.Errorf("%q is of the device %q, %v", target, name, err)
		}
	})
}

func TestIsPartition(t *testing.T) {
	for name, want := range map[string]bool{
		"amdgpu_xcp_0": true, "amdgpu_xcp.63": true, "amdgpu_xcp": false, "amdgpu_xcp_": false, "amdgpu_xcp_x": false,
		"amdgpu_xcp-1": false, "amdgpu_xcp_01": false, "amdgpu_xcp_-1": false, "amdgpu_xcp1": false, "0000:63:00.0": false, "vgem": false, "": false,
	} {
		if got := (Device{Name: name}).IsPartition(); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

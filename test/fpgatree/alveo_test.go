package fpgatree

import (
	"archive/tar"
	"compress/gzip"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/accelmux/accelmux/test/sysroot"
)

// A tree of Alveo cards has the files and links that readers go by.
func TestAlveoLayout(t *testing.T) {
	tree := write(t, NewAlveos())
	for name, want := range map[string]string{
		"sys/bus/pci/devices/0000:11:00.0/vendor":                      "0x10ee",
		"sys/bus/pci/devices/0000:11:00.1/device":                      "0x5021",
		"sys/bus/pci/devices/0000:11:00.0/class":                       "0x120000",
		"sys/bus/pci/devices/0000:11:00.0/mgmt_pf":                     "",
		"sys/bus/pci/devices/0000:11:00.0/instance":                    "4352",
		"sys/bus/pci/devices/0000:11:00.1/user_pf":                     "",
		"sys/bus/pci/devices/0000:11:00.1/ready":                       "0x1",
		"sys/bus/pci/devices/0000:11:00.1/shutdown":                    "0",
		"sys/bus/pci/devices/0000:11:00.1/drm/renderD128/dev":          "226:128",
		"sys/class/drm/renderD129/dev":                                 "226:129",
		"sys/bus/pci/devices/0000:21:00.1/xclbinuuid":                  "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21",
		"sys/bus/pci/devices/10000:41:00.1/interface_uuids":            "",
		"sys/bus/pci/devices/0000:31:00.0/logic_uuids":                 "12c8fafb0632499db1c0c6676271b8a6\n7c04ef9c3d6f4a1a8f0b4f1ce0d2a7b3",
		"sys/bus/pci/devices/0000:61:00.0/user_pf":                     "",
		"sys/bus/pci/devices/0000:61:00.0/vendor":                      "0x1d0f",
		"sys/bus/pci/devices/0000:61:00.0/numa_node":                   "1",
		"sys/devices/pci0000:20/0000:20:01.1/0000:21:00.1/dev_offline": "0",
	} {
		if got := read(t, tree.Root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for i, c := range tree.Machine().Alveos {
		for _, side := range c.sides() {
			for file, want := range map[string]string{"rom/VBNV": c.Model.VBNV, "rom/timestamp": fmt.Sprint(c.Model.Timestamp), "xmc/serial_num": c.Serial, "firewall/level": noLevel} {
				path, err := tree.AlveoFile(i, side, file)
				if c.Model.Bare && !strings.HasPrefix(file, "rom") {
					if err == nil {
						t.Errorf("card %d has %s", i, path)
					}
					continue
				}
				if err != nil {
					t.Errorf("card %d: %v", i, err)
				} else if got := read(t, tree.Root, path); got != want {
					t.Errorf("%s is %q, want %q", path, got, want)
				}
			}
		}
	}
	all := list(t, tree)
	for _, node := range []string{"dev/xclmgmt4352", "dev/dri/renderD128", "dev/dri/card0", "dev/dri/renderD132"} {
		if all[node] == "" {
			t.Errorf("there is no %s", node)
		}
	}
	if _, err := tree.AlveoFile(4, User, "ready"); err == nil || all["sys/bus/pci/devices/0000:51:00.1"] != "" {
		t.Errorf("the user function that a virtual machine has is here: %v", err)
	}
}

// What is unplugged or unloaded leaves nothing; it comes back as it was.
func TestAlveoUnplug(t *testing.T) {
	tree := write(t, NewVendors())
	before := list(t, tree)
	states := map[string]bool{}
	tree.Halfway = func(state string) { states[state] = true }
	for i, c := range tree.Machine().Alveos {
		if err := tree.UnplugAlveo(i); err != nil {
			t.Fatal(err)
		}
		for name := range list(t, tree) {
			if strings.Contains(name, c.Address.String()) || strings.HasSuffix(name, fmt.Sprintf("xclmgmt%d", instance(c.Address))) {
				t.Errorf("%s is left", name)
			}
		}
		if err := tree.UnplugAlveo(i); err == nil {
			t.Errorf("card %d was unplugged twice", i)
		}
		if err := tree.ReloadXRT(i); err == nil {
			t.Errorf("card %d got a driver while it is not there", i)
		}
		if err := tree.ReloadXRT(1 - i); err != nil {
			t.Fatal(err)
		}
		if err := tree.PlugAlveo(i); err != nil {
			t.Fatal(err)
		}
		if err := tree.PlugAlveo(i); err == nil {
			t.Errorf("card %d was plugged in twice", i)
		}
	}
	if err := tree.ReloadXRT(0, 0); err == nil {
		t.Error("a card was loaded twice")
	}
	if err := tree.ReloadXRT(1, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tree.Sysfs(), "bus/pci/devices/0000:66:00.1/drm/renderD128")); err != nil {
		t.Errorf("the card that was found first has not the first node: %v", err)
	}
	if err := tree.ReloadXRT(0, 1); err != nil {
		t.Fatal(err)
	}
	if after := list(t, tree); !maps.Equal(before, after) {
		t.Errorf("the tree is another one than before: %v", differences(before, after))
	}
	for _, state := range []string{"no driver", "management only", "persistent files only", "no subdevices", "function gone", "no nodes"} {
		if !states[state] {
			t.Errorf("the state %q was not shown", state)
		}
	}
}

func differences(a, b map[string]string) []string {
	var all []string
	for name := range a {
		if a[name] != b[name] {
			all = append(all, name)
		}
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// During a reset only what persists is there; afterwards nothing is loaded.
func TestAlveoReset(t *testing.T) {
	m := NewAlveo(U250)
	m.Alveos[0].Xclbin = "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21"
	tree := write(t, m)
	user := filepath.Join(tree.Root, "sys/bus/pci/devices/0000:65:00.1")
	if err := tree.BeginReset(0); err != nil {
		t.Fatal(err)
	}
	if got, _ := filepath.Glob(filepath.Join(user, "*.u.*")); len(got) != 0 {
		t.Errorf("during a reset there are %q", got)
	}
	for file, want := range map[string]string{"user_pf": "", "shutdown": "0", "ready": "0x0", "dev_offline": "1"} {
		if got := read(t, user, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if err := tree.EndReset(0); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"shutdown": "0", "ready": "0x1", "dev_offline": "0", "xclbinuuid": ""} {
		if got := read(t, user, file); got != want {
			t.Errorf("%s is %q, want %q", file, got, want)
		}
	}
	if _, err := tree.AlveoFile(0, User, "rom/VBNV"); err != nil {
		t.Error(err)
	}
	// What is written to shutdown does the same, and marks the card until 0 is written.
	for _, step := range []struct{ text, shutdown, ready, management string }{{"1\n", "1", "0x0", "0"}, {"0\n", "0", "0x1", "0"}} {
		if err := tree.WriteShutdown(filepath.Join(user, "shutdown"), step.text); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{"0000:65:00.1/shutdown": step.shutdown, "0000:65:00.1/ready": step.ready, "0000:65:00.0/dev_offline": step.management} {
			if got := read(t, filepath.Dir(user), file); got != want {
				t.Errorf("after %q %s is %q, want %q", step.text, file, got, want)
			}
		}
	}
	for file, text := range map[string]string{filepath.Join(user, "shutdown"): "3", "/sys/bus/pci/devices/0000:65:00.0/shutdown": "1"} {
		if err := tree.WriteShutdown(file, text); err == nil {
			t.Errorf("%q was written to %s", text, file)
		}
	}
}

// A firewall trips on both functions, and what was detected stays.
func TestAlveoFirewall(t *testing.T) {
	tree := write(t, NewAlveo(U50))
	if err := tree.TripFirewall(0, 2, "ep_firewall_ctrl_user_00", 0x80000, 1700000000); err != nil {
		t.Fatal(err)
	}
	check := func(file, want string) {
		t.Helper()
		for _, side := range []Side{User, Management} {
			path, err := tree.AlveoFile(0, side, "firewall/"+file)
			if err != nil {
				t.Fatal(err)
			}
			if got := read(t, tree.Root, path); got != want {
				t.Errorf("%s is %q, want %q", path, got, want)
			}
		}
	}
	check("status", "524288")
	check("level", "2")
	check("detected_level_name", "ep_firewall_ctrl_user_00")
	if err := tree.TripFirewall(0, 0, "", 0, 0); err != nil {
		t.Fatal(err)
	}
	check("status", "0")
	check("level", noLevel)
	check("detected_status", "524288")
	for name, err := range map[string]error{
		"no such card": tree.TripFirewall(1, 0, "", 1, 0), "no such file": tree.SetAlveo(0, User, "rom/none", ""),
		"no subdevice": tree.SetAlveo(0, User, "sysmon/none", ""), "loaded": tree.LoadXclbin(3, ""), "reset": tree.BeginReset(1),
		"unplug": tree.UnplugAlveo(1), "plug": tree.PlugAlveo(1), "end": tree.EndReset(1), "reload": tree.ReloadXRT(1),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestImpossibleAlveos(t *testing.T) {
	for name, change := range map[string]func(*Alveo){
		"bus 0": func(c *Alveo) { c.Address.Bus = 0 }, "neither": func(c *Alveo) { c.UserOnly, c.ManagementOnly = true, true },
		"no room": func(c *Alveo) { c.Address.Function = 7 },
	} {
		m := NewAlveo(U50)
		change(&m.Alveos[0])
		if _, err := Write(sysroot.TempDir(t), m); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

var update = flag.Bool("update", false, "write the captures in testdata anew")

// The archive in testdata is what this package makes; -update writes it.
func TestAlveoCapture(t *testing.T) {
	archive := filepath.Join("testdata", "alveo_u250.tar.gz")
	m := NewAlveo(U250)
	m.Alveos[0].Xclbin = "6d3f2c1e-54a8-4c0e-9f0d-6f1f1f0a7b21"
	made := write(t, m)
	if *update {
		pack(t, made.Root, archive)
	}
	tree, err := Unpack(sysroot.TempDir(t), archive)
	if err != nil {
		t.Fatal(err)
	}
	want, got := list(t, made), list(t, tree)
	for _, all := range []map[string]string{want, got} {
		maps.DeleteFunc(all, func(name, _ string) bool {
			return strings.HasPrefix(name, "dev/") || strings.HasPrefix(name, sysroot.Staging) || name == "sys/class/hwmon"
		})
	}
	if d := differences(want, got); len(d) > 0 {
		t.Errorf("the archive is not what is made now (go test -update makes it anew): %v", d)
	}
	for name, kind := range want {
		if kind != fs.FileMode(0).String() {
			continue
		}
		if a, b := read(t, made.Root, name), read(t, tree.Root, name); a != b {
			t.Errorf("%s is %q in the archive, %q now", name, b, a)
		}
	}
	for _, node := range []string{"dri/renderD128", "xclmgmt25856"} {
		if _, err := os.Stat(filepath.Join(tree.Devfs(), node)); err != nil {
			t.Error(err)
		}
	}
}

// pack makes an archive as captures are: below /tmp, with device nodes as empty files.
func pack(t *testing.T, root, archive string) {
	t.Helper()
	f, err := os.Create(archive)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		if err != nil || !strings.HasPrefix(name, "sys") && !strings.HasPrefix(name, "dev") {
			return err
		}
		h := &tar.Header{Name: "tmp/" + name, Mode: 0o644}
		var content []byte
		switch {
		case e.IsDir():
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case e.Type()&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
			h.Linkname, err = os.Readlink(path)
		case e.Type().IsRegular():
			content, err = os.ReadFile(path)
			fallthrough
		default:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
		}
		if err != nil {
			return err
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	for _, err := range []error{err, w.Close(), z.Close(), f.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

package cdi_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	oci "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/inventory"
	testhost "github.com/accelmux/accelmux/test/host"
)

const gpuFile = "accelmux-mock-gpu.json"

// Verifies that a runtime can inject a published device: every kind of edit is in the OCI
// spec, from a file that everybody may read.
func TestPublishedDeviceCanBeInjected(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "var", "run", "cdi")
	s := open(t, dir)
	d := device("dev-1", "1")
	d.Edits = inventory.Edits{
		Env:            inventory.Named(map[string]string{"B": "2", "A": "1", "TEXT": "tab\tline\nquote\" ünïcode <&> 🙂"}),
		DeviceNodes:    []inventory.DeviceNode{{Path: "/dev/accel0", HostPath: "/dev/null", Permissions: "rw"}, {Path: "/dev/zero", HostPath: "/dev/zero", Permissions: "r"}},
		Mounts:         []inventory.Mount{{HostPath: "/etc", ContainerPath: "/data", Options: []string{"nosuid", "ro"}}, {HostPath: "/tmp", ContainerPath: "/a", Writable: true, Options: []string{"bind", "rslave"}}},
		Hooks:          []inventory.OCIHook{{Name: "createContainer", Path: "/bin/true", Args: []string{"true", "x"}, Env: []string{"E=1"}}},
		AdditionalGIDs: []uint32{44, 0, 7, 44},
	}
	name := qualified(t, s.Publish([]*inventory.Device{d}, nobody), "dev-1")
	if name != "mock.accelmux.io/gpu=dev-1" {
		t.Errorf("name %q", name)
	}
	spec, err := inject(t, dir, name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=1", "B=2", "TEXT=tab\tline\nquote\" ünïcode <&> 🙂"}, spec.Process.Env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	var nodes []string
	for _, node := range spec.Linux.Devices {
		nodes = append(nodes, node.Path+" "+node.Type)
	}
	for _, rule := range spec.Linux.Resources.Devices {
		nodes = append(nodes, rule.Access)
	}
	if diff := cmp.Diff([]string{"/dev/accel0 c", "/dev/zero c", "rw", "r"}, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	wantMounts := []oci.Mount{
		{Source: "/tmp", Destination: "/a", Options: []string{"bind", "rw", "rslave"}},
		{Source: "/etc", Destination: "/data", Options: []string{"rbind", "ro", "rprivate", "nosuid"}},
	}
	if diff := cmp.Diff(wantMounts, spec.Mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	wantHooks := []oci.Hook{{Path: "/bin/true", Args: []string{"true", "x"}, Env: []string{"E=1"}}}
	if diff := cmp.Diff(wantHooks, spec.Hooks.CreateContainer); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]uint32{7, 44}, spec.Process.User.AdditionalGids); diff != "" {
		t.Errorf("additional groups (-want +got):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, gpuFile))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, want 0644", info.Mode())
	}
}

// Verifies that a runtime makes a node with numbers that the host does not have, and that it gives a block device.
func TestInjectedNodes(t *testing.T) {
	dir, block := filepath.Join(t.TempDir(), "cdi"), filepath.Join(t.TempDir(), "nbd0")
	if err := unix.Mknod(block, unix.S_IFBLK|0o600, int(unix.Mkdev(43, 0))); errors.Is(err, unix.EPERM) {
		testhost.Lacks(t, "device nodes cannot be made here: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	d := device("dev-1", "1")
	d.Edits = inventory.Edits{DeviceNodes: []inventory.DeviceNode{
		{Path: "/dev/a", HostPath: "/none/a", Permissions: "rw", Type: "c", Major: 240, Minor: 7},
		{Path: "/dev/b", HostPath: "/dev/b", Permissions: "r", Type: "c", Major: 241},
		{Path: "/dev/c", HostPath: block, Permissions: "rw", Type: "b"},
	}}
	spec, err := inject(t, dir, qualified(t, open(t, dir).Publish([]*inventory.Device{d}, nobody), "dev-1"))
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i, node := range spec.Linux.Devices {
		nodes = append(nodes, fmt.Sprint(node.Path, " ", node.Type, " ", node.Major, ":", node.Minor, " ", spec.Linux.Resources.Devices[i].Access))
	}
	if diff := cmp.Diff([]string{"/dev/a c 240:7 rw", "/dev/b c 241:0 r", "/dev/c b 43:0 rw"}, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
}

// Verifies that a spec asks for the oldest version of CDI that its edits allow: an older
// runtime refuses a newer file as a whole.
func TestSpecVersionIsTheLeastNeeded(t *testing.T) {
	for name, tc := range map[string]struct {
		id    string
		edits inventory.Edits
		want  string
	}{
		"env only":        {"dev", inventory.Edits{Env: inventory.Named(map[string]string{"A": "1"})}, "0.3.0"},
		"other host path": {"dev", inventory.Edits{DeviceNodes: []inventory.DeviceNode{{Path: "/dev/x", HostPath: "/dev/null", Permissions: "rw"}}}, "0.5.0"},
		"digit first":     {"0000:65:00.0", inventory.Edits{Env: inventory.Named(map[string]string{"A": "1"})}, "0.5.0"},
		"groups":          {"dev", inventory.Edits{AdditionalGIDs: []uint32{44}}, "0.7.0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			d := &inventory.Device{Key: key(tc.id), Class: "gpu", Edits: tc.edits}
			n := qualified(t, s.Publish([]*inventory.Device{d}, nobody), tc.id)
			if got := readSpec(t, filepath.Join(dir, gpuFile)).Version; got != tc.want {
				t.Errorf("version %s, want %s", got, tc.want)
			}
			if _, err := inject(t, dir, n); err != nil {
				t.Error(err)
			}
		})
	}
}

// Verifies the table of the package comment.
func TestHeldNamesKeepTheirMeaning(t *testing.T) {
	for name, tc := range map[string]struct {
		held func(inventory.Key) bool
		next []*inventory.Device
		// oldValue is what the first name means afterwards, "" for nothing;
		// newName is what a new container gets, "derived" for another name.
		oldValue, newName string
	}{
		"nothing changes":       {nobody, []*inventory.Device{device("a", "1")}, "VALUE=1", "plain"},
		"edits change":          {nobody, []*inventory.Device{device("a", "2")}, "VALUE=2", "plain"},
		"edits change, held":    {everyone, []*inventory.Device{device("a", "2")}, "VALUE=1", "derived"},
		"device vanishes":       {nobody, nil, "", ""},
		"device vanishes, held": {everyone, nil, "VALUE=1", ""},
		"held is nil":           {nil, []*inventory.Device{device("a", "2")}, "VALUE=1", "derived"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, restart := range []bool{false, true} {
				dir := t.TempDir()
				s := open(t, dir)
				first := qualified(t, s.Publish([]*inventory.Device{device("a", "1")}, nobody), "a")
				if restart {
					s = open(t, dir)
				}
				names := s.Publish(tc.next, tc.held)
				if tc.oldValue == "" {
					gone(t, dir, first)
				} else if got := env(t, dir, first); got != tc.oldValue {
					t.Errorf("restart %v: the first name means %q, want %q", restart, got, tc.oldValue)
				}
				got, err := names.Qualified(key("a"))
				switch tc.newName {
				case "":
					if err == nil {
						t.Errorf("restart %v: %s is given out", restart, got)
					}
				case "plain":
					if err != nil || got != first {
						t.Errorf("restart %v: name %q, %v; want %q", restart, got, err, first)
					}
				case "derived":
					if err != nil || !strings.HasPrefix(got, first+"::") {
						t.Errorf("restart %v: name %q, %v; want another than %q", restart, got, err, first)
					}
					if got := env(t, dir, got); got != "VALUE=2" {
						t.Errorf("restart %v: the new name means %q", restart, got)
					}
				}
			}
		})
	}
}

// Verifies that a device whose edits change back gets its earlier name back, and that after the
// release only the plain name is left.
func TestDerivedNamesEndWithTheHolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one, two := device("a", "1"), device("a", "2")
	plain := qualified(t, s.Publish([]*inventory.Device{one}, everyone), "a")
	derived := qualified(t, s.Publish([]*inventory.Device{two}, everyone), "a")
	if got := qualified(t, s.Publish([]*inventory.Device{device("a", "1")}, everyone), "a"); got != plain {
		t.Errorf("name %s, want %s again", got, plain)
	}
	if got := qualified(t, s.Publish([]*inventory.Device{two}, everyone), "a"); got != derived {
		t.Errorf("name %s, want %s again", got, derived)
	}
	if got := qualified(t, s.Publish([]*inventory.Device{two}, nobody), "a"); got != plain {
		t.Errorf("name %s after the release, want %s", got, plain)
	}
	// A container may be getting the name that was current until now.
	if got := env(t, dir, derived); got != "VALUE=2" {
		t.Errorf("%s means %q right after the release", derived, got)
	}
	s.Publish([]*inventory.Device{two}, nobody)
	gone(t, dir, derived)
	if got := env(t, dir, plain); got != "VALUE=2" {
		t.Errorf("%s means %q", plain, got)
	}
	if diff := cmp.Diff([]string{gpuFile}, files(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// Verifies that the definitions of a held device whose edits change again and again are bounded.
func TestDefinitionsOfOneDeviceAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var err error
	for i := range 100 {
		_, err = s.Publish([]*inventory.Device{device("a", strings.Repeat("x", i)), device("b", "1")}, holding("a")).Qualified(key("a"))
	}
	if err == nil || !strings.Contains(err.Error(), "changed its container edits") {
		t.Errorf("error %v", err)
	}
	if got := len(s.Definitions()); got > 17 {
		t.Errorf("%d definitions", got)
	}
	names := s.Publish([]*inventory.Device{device("a", "end"), device("b", "1")}, nobody)
	if got := env(t, dir, qualified(t, names, "a"), qualified(t, names, "b")); got != "VALUE=1" {
		t.Errorf("env %q", got)
	}
}

// Verifies that devices whose IDs CDI does not allow as they are have names of their own, which
// a later run recognizes, and that an ID that could be another device's name is refused.
func TestNamesAreInjective(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	odd := []*inventory.Device{device("a-", "1"), device("a.", "2"), device("a", "3"), device("a--", "4"), device("x:y:0.1", "5"), device("a:", "6")}
	names := s.Publish(odd, nobody)
	seen := map[string]string{}
	for _, d := range odd {
		name := qualified(t, names, d.ID)
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both %s", d.ID, other, name)
		}
		seen[name] = d.ID
		if got, want := env(t, dir, name), "VALUE="+d.Edits.Env[0].Value; got != want {
			t.Errorf("%s gives %q, want %q", d.ID, got, want)
		}
	}
	s = open(t, dir)
	crafted := strings.TrimPrefix(qualified(t, names, "a-"), "mock.accelmux.io/gpu=")
	names = s.Publish(append(odd, device(crafted, "7")), holding("a-"))
	if got := env(t, dir, qualified(t, names, "a-")); got != "VALUE=1" {
		t.Errorf("a- gives %q after a restart", got)
	}
	if name, err := names.Qualified(key(crafted)); err == nil {
		t.Errorf("device %s has the name %s", crafted, name)
	}
	if got := len(s.Definitions()); got != len(odd) {
		t.Errorf("%d definitions, want %d", got, len(odd))
	}
}

// Verifies that a device that CDI cannot express costs that device alone.
func TestBadDeviceCostsOnlyItself(t *testing.T) {
	bad := func(change func(*inventory.Device)) *inventory.Device {
		d := device("bad", "1")
		change(d)
		return d
	}
	for name, tc := range map[string]struct {
		device *inventory.Device
		want   string
	}{
		"no net hook": {bad(func(d *inventory.Device) {
			d.Edits.Hooks = []inventory.OCIHook{{Name: "createContainer", Path: "/bin/own"}}
			d.Edits.NetDevices = []inventory.NetDevice{{HostName: "can0", Name: "can0"}}
		}), "accelmux-net-hook"},
		"no edits":     {bad(func(d *inventory.Device) { d.Edits = inventory.Edits{} }), "no container edits"},
		"unknown hook": {bad(func(d *inventory.Device) { d.Edits.Hooks = []inventory.OCIHook{{Name: "nope", Path: "/x"}} }), "hook"},
		"permissions": {bad(func(d *inventory.Device) {
			d.Edits.DeviceNodes = []inventory.DeviceNode{{Path: "/x", HostPath: "/x", Permissions: "rx"}}
		}), "permissions"},
		"class with dash": {bad(func(d *inventory.Device) { d.Class = "gpu-" }), "class"},
		"backend digit":   {bad(func(d *inventory.Device) { d.Backend = "3d" }), "backend"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			names := open(t, dir).Publish([]*inventory.Device{tc.device, device("good", "1")}, nobody)
			if got := env(t, dir, qualified(t, names, "good")); got != "VALUE=1" {
				t.Errorf("env %q", got)
			}
			_, err := names.Qualified(tc.device.Key)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.device.String()) {
				t.Errorf("error %v, want one of %s about %q", err, tc.device.Key, tc.want)
			}
		})
	}
	t.Run("unknown device", func(t *testing.T) {
		var none *cdi.Names
		if _, err := none.Qualified(key("x")); err == nil {
			t.Error("no error")
		}
	})
}

// Verifies that a file is written only when its content changes.
func TestPublishWritesOnlyChanges(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	other := device("o", "1")
	other.Class = "nic"
	s.Publish([]*inventory.Device{device("a", "1"), other}, nobody)
	before := stat(t, filepath.Join(dir, gpuFile))
	s.Publish([]*inventory.Device{device("a", "1"), other}, nobody)
	s = open(t, dir)
	changed := device("o", "2")
	changed.Class = "nic"
	s.Publish([]*inventory.Device{device("a", "1"), changed}, nobody)
	if !os.SameFile(before, stat(t, filepath.Join(dir, gpuFile))) {
		t.Error("the file of devices that did not change was written again")
	}
	if got := env(t, dir, "mock.accelmux.io/nic=o"); got != "VALUE=2" {
		t.Errorf("env %q", got)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// Verifies that Close leaves the definitions of held devices, and no others.
func TestCloseRemovesWhatIsNotHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		held func(inventory.Key) bool
		want []string
	}{
		"nobody":      {nobody, []string{}},
		"one":         {holding("a"), []string{gpuFile}},
		"nil":         {nil, []string{gpuFile, "accelmux-mock-nic.json"}},
		"all of them": {everyone, []string{gpuFile, "accelmux-mock-nic.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, ".accelmux-mock-gpu.json.123.tmp", "of a write that was not finished")
			s := open(t, dir)
			other := device("o", "1")
			other.Class = "nic"
			s.Publish([]*inventory.Device{device("a", "1"), device("b", "1"), other}, nobody)
			if err := s.Close(tc.held); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, files(t, dir)); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if name == "one" {
				gone(t, dir, "mock.accelmux.io/gpu=b")
				if got := env(t, dir, "mock.accelmux.io/gpu=a"); got != "VALUE=1" {
					t.Errorf("env %q", got)
				}
			}
			if _, err := s.Publish([]*inventory.Device{device("a", "1")}, nobody).Qualified(key("a")); err == nil {
				t.Error("a closed store gives out names")
			}
		})
	}
}

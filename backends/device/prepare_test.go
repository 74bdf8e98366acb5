package device

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func (r *rig) prepare(shared bool) (res *backendv1.PrepareResponse, err error) {
	r.t.Helper()
	var with []string
	if shared {
		with = []string{acmeID}
	}
	r.During(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 25*time.Second)
		defer cancel()
		res, err = r.Prepare(ctx, &backendv1.PrepareRequest{Resource: "acme.example/npu", Devices: sdktest.Held(with, acmeID)})
	})
	return res, err
}

// release releases the device, and returns why it was not.
func (r *rig) release(shared bool) (message string) {
	r.t.Helper()
	r.During(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 25*time.Second)
		defer cancel()
		var with []string
		if shared {
			with = []string{acmeID}
		}
		res, err := r.Release(ctx, &backendv1.ReleaseRequest{Devices: sdktest.Held(with, acmeID)})
		if err != nil || len(res.GetResults()) != 1 {
			r.t.Errorf("Release: %v, %v", res, err)
			return
		}
		message = res.GetResults()[0].GetMessage()
	})
	return message
}

// The steps are done for the first holder, again when its container starts again, and not for further
// ones; an error names the step. A holder that shares the device waits while it has a holder for which
// they were not done.
func TestPrepare(t *testing.T) {
	t.Parallel()
	const mode = "sys/class/acme/mode"
	run(t, "", acme, acmeKind(`"count": 2, "prepare": [{"write": {"file": "clear", "value": "{name}"}}, {"write": {"file": "/`+mode+`", "value": "2"}}]`), func(r *rig) {
		r.device(acmeID, "is healthy", func(d *backendv1.Device) bool { return healthy(d) && len(d.GetHooks()) == 2 })
		if _, err := r.prepare(true); err == nil || !strings.Contains(err.Error(), "another container has it") || r.content(acmeFile+"clear") != "-" {
			t.Errorf("the first holder is unknown: %v, %q", err, r.content(acmeFile+"clear"))
		}
		if _, err := r.prepare(false); err == nil || !strings.Contains(err.Error(), "step 2 of the kind acme") {
			t.Error(err)
		}
		for _, c := range []struct {
			what     string
			shared   bool
			released bool
			done     bool
		}{
			{"beside one that did not start", true, false, true}, {"the second", true, false, false}, {"the first again", false, false, true},
			{"after all", false, true, true},
		} {
			if c.released {
				if m := r.release(true) + r.release(false); m != "" {
					t.Error(m)
				}
				if _, err := r.prepare(true); err == nil {
					t.Error("the record was not removed")
				}
			}
			r.tree.Change(t, mode+": 1\n"+acmeFile+"clear: -")
			if _, err := r.prepare(c.shared); err != nil || (r.content(mode) == "2") != c.done || (r.content(acmeFile+"clear") == "acme0") != c.done {
				t.Errorf("%s: %v, mode %q", c.what, err, r.content(mode))
			}
		}
		r.tree.Change(t, "proc/sys/kernel/random/boot_id: two")
		if _, err := r.prepare(true); err == nil {
			t.Error("the record of another boot counts")
		}
		if err := os.WriteFile(filepath.Join(r.tree.Root, "records", acmeID), nil, 0o600); err != nil { // the node lost power
			t.Fatal(err)
		}
		if _, err := r.prepare(false); err != nil {
			t.Error(err)
		}
	})
}

// A function that its kind no longer matches once it is bound is an error: its container would start
// without it.
func TestBoundAndNoMatch(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:00/0000:01:00.0/"
	kind := `{"name": "acme", "match": {"pci": {"drivers": ["acme"]}},
		"edits": {"nodes": [{"path": "/dev/vfio/7"}], "env": {"ACME": "1"}}, "prepare": [{"bind": {"driver": "vfio-pci"}}]}`
	run(t, "", acme+at+"driver -> ../../../bus/pci/drivers/acme\n", `{"edits": {"groups": "none"}, "kinds": [`+kind+`]}`, func(r *rig) {
		r.device(acmeID, "is healthy", healthy)
		r.tree.Change(t, at+"driver -> ../../../bus/pci/drivers/vfio-pci\ndev/vfio/7: c 240:7")
		if res, err := r.prepare(false); err == nil || !strings.Contains(err.Error(), "after it was bound") {
			t.Errorf("%v, %v", res, err)
		}
	})
}

// pciBus is what binds drivers in the place of the kernel: by driver_override, or the driver that is
// native.
func (r *rig) pciBus(path, text string) error {
	bus := filepath.Join(r.tree.Host().Sysfs, "bus/pci")
	link := filepath.Join(bus, "devices", text, "driver")
	switch filepath.Base(path) {
	case "driver_override":
		return os.WriteFile(path, []byte(text), 0o600)
	case "unbind":
		return os.Remove(link)
	case "drivers_probe":
		override, err := os.ReadFile(filepath.Join(bus, "devices", text, "driver_override"))
		driver := cmp.Or(strings.TrimSpace(string(override)), "native")
		if _, absent := os.Stat(filepath.Join(bus, "drivers", driver)); err != nil || absent != nil {
			return err
		}
		return os.Symlink("../../../bus/pci/drivers/"+driver, link)
	}
	return fmt.Errorf("%s was written", path)
}

// A function that is bound to a driver in Prepare gets its nodes only then, and its containers have
// them. When the last one has ended, it is as it was before: also if this process did not bind it.
func TestBind(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:00/0000:01:00.0/"
	kind := `{"name": "acme", "match": {"pci": {"vendors": ["1234"]}}, "count": 2,
		"edits": {"nodes": [{"path": "/dev/vfio/{iommu.group}"}], "env": {"ACME": "{pci.address}"}}, "prepare": [{"bind": {"driver": "vfio-pci"}}]}`
	for name, c := range map[string]struct{ driver, override string }{
		"its own driver": {"native", "(null)"}, "none": {"", "(null)"}, "another one": {"other", "other"}, "it already": {"vfio-pci", "vfio-pci"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree := acme + at + "driver_override: " + c.override + "\nsys/bus/pci/drivers/native/\nsys/bus/pci/drivers/other/\ndev/vfio/7: c 240:7\n" +
				at + "iommu_group -> ../../../kernel/iommu_groups/7\n"
			if c.driver != "" {
				tree += at + "driver -> ../../../bus/pci/drivers/" + c.driver + "\n"
			}
			run(t, "", tree, `{"edits": {"groups": "none"}, "kinds": [`+kind+`]}`, func(r *rig) {
				r.device(acmeID, "is healthy", healthy)
				is := func(driver, override string) {
					t.Helper()
					to, _ := os.Readlink(filepath.Join(r.tree.Root, at, "driver"))
					if text := r.content(at + "driver_override"); driver != "" && filepath.Base(to) != driver || driver == "" && to != "" || text != override {
						t.Errorf("the driver is %s, want %s; driver_override %q, want %q", to, driver, text, override)
					}
				}
				before := strings.TrimPrefix(c.override, "(null)")
				if _, err := r.prepare(false); c.driver != "vfio-pci" && (err == nil || !strings.Contains(err.Error(), "bind 0000:01:00.0 to vfio-pci: the kernel did not do it")) {
					t.Error(err)
				}
				if m := r.release(false); m != "" {
					t.Error(m)
				}
				is(c.driver, before)
				r.tree.Change(t, "sys/bus/pci/drivers/vfio-pci/")
				for _, shared := range []bool{false, true} {
					res, err := r.prepare(shared)
					if nodes := res.GetEdits()[acmeID].GetDeviceNodes(); err != nil || len(nodes) != 1 || nodes[0].GetPath() != "/dev/vfio/7" {
						t.Errorf("shared %v: %v, %v", shared, res, err)
					}
				}
				if m := r.release(true); m != "" {
					t.Error(m)
				}
				is("vfio-pci", "vfio-pci")
				for range 2 {
					if m := r.release(false); m != "" {
						t.Error(m)
					}
					is(c.driver, before)
				}
				if _, err := r.prepare(true); err == nil {
					t.Error("the record was not removed")
				}
			})
		})
	}
}

// A function that someone bound to another driver meanwhile stays bound to it; one whose driver was
// removed is not released, with what is wrong.
func TestUndoOfWhatChanged(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:00/0000:01:00.0/"
	kind := `{"name": "acme", "match": {"pci": {"vendors": ["1234"]}}, "edits": {"env": {"ACME": "1"}}, "prepare": [{"bind": {"driver": "vfio-pci"}}]}`
	for name, c := range map[string]struct{ change, driver, message string }{
		"no longer matched": {"", "native", ""},
		"bound to another":  {at + "driver -> ../../../bus/pci/drivers/other", "other", ""},
		"no driver":         {"- sys/bus/pci/drivers/native", "", "bind 0000:01:00.0 to native again: the kernel did not do it"},
		"unplugged":         {"- sys/devices/pci0000:00/0000:01:00.0", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, "", acme+at+"driver_override: (null)\nsys/bus/pci/drivers/native/\nsys/bus/pci/drivers/vfio-pci/\nsys/bus/pci/drivers/other/\n"+
				at+"driver -> ../../../bus/pci/drivers/native\n", `{"kinds": [`+kind+`]}`, func(r *rig) {
				r.device(acmeID, "is healthy", healthy)
				if _, err := r.prepare(false); err != nil {
					t.Fatal(err)
				}
				r.tree.Change(t, c.change)
				if c.change == "" { // after a restart with these settings the device is as unknown
					r.configure(`{"kinds": [` + strings.Replace(kind, "acme", "other", 1) + `]}`)
					r.device(acmeID, "is not listed", nil)
				}
				for range 2 {
					if m := r.release(false); !strings.Contains(m, c.message) || (m == "") != (c.message == "") {
						t.Errorf("%q", m)
					}
				}
				if to, _ := os.Readlink(filepath.Join(r.tree.Root, at, "driver")); filepath.Base(to) != cmp.Or(c.driver, ".") {
					t.Errorf("the driver is %s", to)
				}
			})
		})
	}
}

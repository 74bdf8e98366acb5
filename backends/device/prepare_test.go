package device

import (
	"context"
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

// Prepare writes what the description says, unless another container has the device; an error
// names the step.
func TestPrepare(t *testing.T) {
	t.Parallel()
	run(t, "", acme, acmeKind(`"prepare": [{"write": {"file": "clear", "value": "{name}"}}, {"write": {"file": "/sys/class/acme/mode", "value": "2"}}]`), func(r *rig) {
		r.device(acmeID, "is healthy", func(d *backendv1.Device) bool { return healthy(d) && len(d.GetHooks()) == 1 })
		if _, err := r.prepare(true); err != nil || r.content(acmeFile+"clear") != "-" {
			t.Errorf("shared: %v, %q", err, r.content(acmeFile+"clear"))
		}
		if _, err := r.prepare(false); err == nil || !strings.Contains(err.Error(), "step 2 of the kind acme") {
			t.Error(err)
		}
		r.tree.Change(t, "sys/class/acme/mode: 1")
		if _, err := r.prepare(false); err != nil || r.content(acmeFile+"clear") != "acme0" || r.content("sys/class/acme/mode") != "2" {
			t.Errorf("%v, %q", err, r.content(acmeFile+"clear"))
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

// A function that is bound to a driver in Prepare gets its nodes only then, and the container has
// them. One that the kernel does not bind is an error with what to do.
func TestBind(t *testing.T) {
	t.Parallel()
	const at = "sys/devices/pci0000:00/0000:01:00.0/"
	kind := `{"name": "acme", "match": {"pci": {"vendors": ["1234"]}},
		"edits": {"nodes": [{"path": "/dev/vfio/{iommu.group}"}], "env": {"ACME": "{pci.address}"}}, "prepare": [{"bind": {"driver": "vfio-pci"}}]}`
	run(t, "", acme+at+"driver_override: -\nsys/bus/pci/drivers_probe: -\nsys/bus/pci/drivers/acme/unbind: -\n"+at+"driver -> ../../../bus/pci/drivers/acme\n"+
		at+"iommu_group -> ../../../kernel/iommu_groups/7", `{"edits": {"groups": "none"}, "kinds": [`+kind+`]}`, func(r *rig) {
		r.device(acmeID, "is healthy", healthy)
		if _, err := r.prepare(false); err == nil || !strings.Contains(err.Error(), "bind 0000:01:00.0 to vfio-pci: the kernel did not do it") {
			t.Error(err)
		}
		for file, want := range map[string]string{at + "driver_override": "vfio-pci", "sys/bus/pci/drivers/acme/unbind": "0000:01:00.0", "sys/bus/pci/drivers_probe": "0000:01:00.0"} {
			if got := r.content(file); got != want {
				t.Errorf("%s has %q, want %q", file, got, want)
			}
		}
		r.tree.Change(t, at+"driver -> ../../../bus/pci/drivers/vfio-pci\ndev/vfio/7: c 240:7")
		res, err := r.prepare(false)
		if nodes := res.GetEdits()[acmeID].GetDeviceNodes(); err != nil || len(nodes) != 1 || nodes[0].GetPath() != "/dev/vfio/7" {
			t.Errorf("%v, %v", res, err)
		}
	})
}

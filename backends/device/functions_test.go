package device

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	"github.com/accelmux/accelmux/backends/uevent"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// port is a network card that can have three virtual functions, without any.
const port = `
sys/bus/pci/devices/0000:3b:00.0 -> ../../../devices/pci0000:3a/0000:3b:00.0
` + portDir + `vendor: 0x15b3
` + portDir + `device: 0x1017
` + portDir + `class: 0x020000
` + portDir + `numa_node: 1
` + portDir + `driver -> ../../../bus/pci/drivers/mlx5_core
` + portDir + `sriov_totalvfs: 3
` + portDir + `sriov_numvfs: 0
` + portDir + `sriov_offset: 2
` + portDir + `sriov_stride: 1
` + portDir + `sriov_vf_device: 18
` + portDir + `net/ens1f0/operstate: up
sys/bus/pci/drivers/native/
sys/bus/pci/drivers/vfio-pci/
`

const (
	portDir = "sys/devices/pci0000:3a/0000:3b:00.0/"
	numVFs  = portDir + "sriov_numvfs"
	// f0 to f2 are the virtual functions.
	f0, f1, f2 = "0000:3b:00.2", "0000:3b:00.3", "0000:3b:00.4"
)

// functionsOfPort are settings; the card can have fewer functions than they want.
const functionsOfPort = `{"edits": {"groups": "none"}, "kinds": [{"preset": "sriov", "functions": {"count": 4}, "prepare": [{"bind": {"driver": "vfio-pci"}}]}]}`

// setFunctions is what the kernel does when sriov_numvfs is written. The functions have their addresses by
// sriov_offset, which is 2, or by the file moved.
func (r *rig) setFunctions(text string) error {
	n, err := strconv.Atoi(text)
	was := r.content(numVFs)
	switch {
	case err != nil:
		return syscall.EINVAL
	case n > 3:
		return syscall.ERANGE
	case n > 0 && was != "0":
		return syscall.EBUSY
	}
	offset := 2
	if moved, err := filepath.Glob(filepath.Join(r.tree.Root, "moved")); err == nil && len(moved) > 0 {
		offset = 4
	}
	var lines strings.Builder
	for i := range 3 {
		at := fmt.Sprintf("0000:3b:00.%d", offset+i)
		dir := "sys/devices/pci0000:3a/" + at + "/"
		if i >= n {
			fmt.Fprintf(&lines, "- %s\n- sys/bus/pci/devices/%s\n- %svirtfn%d\n", dir, at, portDir, i)
			continue
		}
		fmt.Fprintf(&lines, "%svendor: 0x15b3\n%sdevice: 0x0018\n%sclass: 0x020000\n%snuma_node: 1\n%sdriver_override: (null)\n", dir, dir, dir, dir, dir)
		fmt.Fprintf(&lines, "%sphysfn -> ../0000:3b:00.0\n%svirtfn%d -> ../%s\nsys/bus/pci/devices/%s -> ../../../devices/pci0000:3a/%s\n", dir, portDir, i, at, at, at)
		fmt.Fprintf(&lines, "%sdriver -> ../../../bus/pci/drivers/native\n%siommu_group -> ../../../kernel/iommu_groups/5%d\n", dir, dir, i)
		fmt.Fprintf(&lines, "sys/kernel/iommu_groups/5%d/devices/%s -> ../../../../devices/pci0000:3a/%s\nsys/class/vfio/5%d/\ndev/vfio/5%d: c 240:5%d\n", i, at, at, i, i, i)
	}
	return r.tree.Write(lines.String() + numVFs + ": " + text)
}

// make calls Prepare for devices of a holder.
func (r *rig) make(holder string, ids ...string) (res *backendv1.PrepareResponse, err error) {
	r.t.Helper()
	r.During(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 25*time.Second)
		defer cancel()
		res, err = r.Prepare(ctx, &backendv1.PrepareRequest{Holder: &backendv1.Holder{Id: holder}, Devices: sdktest.Held(nil, ids...)})
	})
	return res, err
}

// unmake calls Release for a device of a holder, and returns why it was not released.
func (r *rig) unmake(holder, id string) (message string) {
	r.t.Helper()
	r.During(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 25*time.Second)
		defer cancel()
		res, err := r.Release(ctx, &backendv1.ReleaseRequest{Holder: &backendv1.Holder{Id: holder}, Devices: sdktest.Held(nil, id)})
		if err != nil || len(res.GetResults()) != 1 {
			r.t.Fatalf("Release: %v, %v", res, err)
		}
		message = res.GetResults()[0].GetMessage()
	})
	return message
}

// wantFunctions waits until the devices are these, each with "potential", the holder for which it was made, or
// "by hand", and the code of its fault.
func (r *rig) wantFunctions(want ...string) {
	r.t.Helper()
	var got []string
	is := func(inv *backendv1.Inventory) bool {
		got = nil
		for _, d := range inv.GetDevices() {
			state := d.GetMadeFor()
			if d.GetPotential() {
				state = "potential"
			} else if state == "" {
				state = "by hand"
			}
			got = append(got, strings.TrimSpace(d.GetId()+" "+state+" "+d.GetHealth().GetCode()))
		}
		return slices.Equal(want, got)
	}
	if r.Last == nil || !is(r.Last) {
		r.Until("devices are "+strings.Join(want, ", "), is)
	}
}

// driverOf returns the driver of a function; "." for none.
func (r *rig) driverOf(function string) string {
	to, _ := filepath.EvalSymlinks(filepath.Join(r.tree.Host().Sysfs, "bus/pci/devices", function, "driver"))
	return filepath.Base(to)
}

// The virtual functions of a physical one are listed with what they will have, are made with the first claim for
// one, bound as the kind says, found by the next process, and removed with the last claim.
func TestFunctionsAreMade(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		d := r.device(f1, "is listed", healthy)
		got := map[string]string{}
		for name, a := range d.GetAttributes() {
			got[name] = a.GetStringValue() + strings.Join(a.GetStringValues().GetValues(), ",")
		}
		want := map[string]string{"kind": "sriov", "vendor": "15b3", "device": "0018", "driver": "vfio-pci", "physicalFunction": "0000:3b:00.0", "pfNames": "ens1f0", "virtualIndex": "", "rdma": ""}
		if diff := gocmp.Diff(want, got); diff != "" || d.GetAttributes()["virtualIndex"].GetIntValue() != 1 {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
		if d.GetEdits() != nil || len(d.GetHooks()) != 2 || len(d.GetConsumes()) != 0 || d.GetPciBusId() != f1 || !slices.Equal(d.GetNumaNodes(), []uint32{1}) {
			t.Errorf("%v", d)
		}
		res, err := r.make("x", f1, f0)
		if nodes := res.GetEdits()[f1].GetDeviceNodes(); err != nil || len(res.GetEdits()) != 2 || len(nodes) == 0 || nodes[0].GetPath() != "/dev/vfio/51" {
			t.Fatalf("Prepare = %v, %v", res, err)
		}
		if r.content(numVFs) != "3" || r.driverOf(f0) != "vfio-pci" || r.driverOf(f2) != "native" {
			t.Errorf("%s functions, with the drivers %s and %s", r.content(numVFs), r.driverOf(f0), r.driverOf(f2))
		}
		r.wantFunctions(f0+" x", f1+" x", f2+" potential")
		if again, err := r.make("x", f1, f0); err != nil || !gocmp.Equal(res.String(), again.String()) {
			t.Errorf("Prepare again = %v, %v", again, err)
		}
		if _, err := r.make("y", f0); err == nil || !strings.Contains(err.Error(), "it was made for another claim") {
			t.Errorf("Prepare of another's = %v", err)
		}
		r.start(functionsOfPort)
		r.wantFunctions(f0+" x", f1+" x", f2+" potential")
		if _, err := r.make("y", f2); err != nil {
			t.Error(err)
		}
		if m := r.unmake("y", f0) + r.unmake("x", f0); m != "" || r.content(numVFs) != "3" || r.driverOf(f0) != "native" {
			t.Errorf("%q, %s functions, with the driver %s", m, r.content(numVFs), r.driverOf(f0))
		}
		r.wantFunctions(f0+" potential", f1+" x", f2+" y")
		r.configure(`{}`) // the kind went while claims have functions
		if m := r.unmake("x", f1) + r.unmake("y", f2); m != "" || r.content(numVFs) != "0" {
			t.Errorf("%q, %s functions", m, r.content(numVFs))
		}
		r.configure(functionsOfPort)
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
	})
}

// Functions that were made by hand are ordinary devices, and stay. Others cannot be made beside them.
func TestFunctionsByHandStay(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		if err := r.setFunctions("2"); err != nil {
			t.Fatal(err)
		}
		r.change("", uevent.Add, "/devices/pci0000:3a/"+f0, "pci")
		r.wantFunctions(f0+" by hand", f1+" by hand", f2+" potential too-few-functions")
		if res, err := r.make("x", f0); err != nil || len(res.GetEdits()) != 1 || r.driverOf(f0) != "vfio-pci" {
			t.Errorf("Prepare = %v, %v, with the driver %s", res, err, r.driverOf(f0))
		}
		if _, err := r.make("x", f2); err == nil || !strings.Contains(err.Error(), "0000:3b:00.0 has 2 virtual functions") {
			t.Error(err)
		}
		if m := r.unmake("x", f0); m != "" || r.content(numVFs) != "2" || r.driverOf(f0) != "native" {
			t.Errorf("%q, %s functions, with the driver %s", m, r.content(numVFs), r.driverOf(f0))
		}
	})
}

// A claim that cannot be served fails with the kernel's words, and leaves nothing behind.
func TestFunctionsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ change, refused, want string }{
		"the kernel refuses":   {"", "sriov_numvfs", "make " + f0 + ": write 3 to sriov_numvfs of 0000:3b:00.0: no space left on device"},
		"there is no driver":   {"- sys/bus/pci/drivers/vfio-pci", "", "bind " + f0 + " to vfio-pci: the kernel did not do it"},
		"it is unhealthy":      {portDir + "net/ens1f0/operstate: down", "", "the interface of the physical function is not up"},
		"the functions move":   {"dev/../moved/", "", "the virtual function got the address 0000:3b:00.4; " + f0 + " was expected"},
		"the record is broken": {"records: x", "", "read the record of what was made"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, "", port, functionsOfPort, func(r *rig) {
				r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
				r.tree.Change(t, c.change)
				r.write = func(path, text string) error {
					if filepath.Base(path) == c.refused {
						return syscall.ENOSPC
					}
					return r.pciBus(path, text)
				}
				if _, err := r.make("x", f0); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("Prepare = %v\nwant %s", err, c.want)
				}
				if n := r.content(numVFs); n != "0" {
					t.Errorf("%s functions", n)
				}
				r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
			})
		})
	}
}

// A function that the driver of the physical one removed keeps its holder, with a fault, until that is gone; after a
// reboot there is none.
func TestFunctionsThatWent(t *testing.T) {
	t.Parallel()
	run(t, "", port, functionsOfPort, func(r *rig) {
		r.wantFunctions(f0+" potential", f1+" potential", f2+" potential")
		if _, err := r.make("x", f0); err != nil {
			t.Fatal(err)
		}
		if err := r.setFunctions("0"); err != nil {
			t.Fatal(err)
		}
		r.change("- "+portDir+"driver", uevent.Remove, "/devices/pci0000:3a/"+f0, "pci")
		r.wantFunctions(f0+" x function-gone", f1+" potential no-driver", f2+" potential no-driver")
		r.tree.Change(t, "proc/sys/kernel/random/boot_id: two\nrecords/..functions-one: a draft\nrecords/..functions-two: one of another process\n"+portDir+"driver -> ../../../bus/pci/drivers/mlx5_core")
		if err := r.setFunctions("1"); err != nil {
			t.Fatal(err)
		}
		r.start(functionsOfPort)
		r.wantFunctions(f0+" by hand", f1+" potential too-few-functions", f2+" potential too-few-functions")
		if files, err := filepath.Glob(filepath.Join(r.tree.Root, "records", ".*functions-*")); err != nil || len(files) != 1 || filepath.Base(files[0]) != "..functions-two" {
			t.Errorf("records %q, %v", files, err)
		}
	})
}

// A kind that matches the physical function, too, gives either it as a whole or its virtual functions.
func TestPhysicalFunctionAsAWhole(t *testing.T) {
	t.Parallel()
	const pf, first, second = "nic-0000:3b:00.0", "nic-" + f0, "nic-" + f1
	kind := `{"kinds": [{"name": "nic", "match": {"pci": {"vendors": ["15b3"]}}, "edits": {"env": {"NIC": "{pci.address}"}}, "functions": {"count": 2}}]}`
	run(t, "", port, kind, func(r *rig) {
		r.wantFunctions(pf+" potential", first+" potential", second+" potential")
		for id, want := range map[string]int64{pf: 3, first: 1, second: 1} {
			if c := r.device(id, "is listed", healthy).GetConsumes(); len(c) != 1 || c[0].GetCounterSet() != r.Last.GetCounterSets()[0].GetName() || c[0].GetCounters()["functions"] != want {
				t.Errorf("%s consumes %v of %v", id, c, r.Last.GetCounterSets())
			}
		}
		if n := r.Last.GetCounterSets()[0].GetCounters()["functions"]; n != 3 {
			t.Errorf("the counter is %d", n)
		}
		if res, err := r.make("x", pf); err != nil || res.GetEdits()[pf].GetEnv()["NIC"] != "0000:3b:00.0" || r.content(numVFs) != "0" {
			t.Errorf("Prepare = %v, %v, with %s functions", res, err, r.content(numVFs))
		}
		r.wantFunctions(pf+" x", first+" potential", second+" potential")
		if _, err := r.make("y", first); err == nil || !strings.Contains(err.Error(), "0000:3b:00.0 is given to a claim as a whole") {
			t.Error(err)
		}
		if m := r.unmake("x", pf); m != "" {
			t.Error(m)
		}
		if _, err := r.make("y", first); err != nil {
			t.Error(err)
		}
		if _, err := r.make("x", pf); err == nil || !strings.Contains(err.Error(), "0000:3b:00.0 has virtual functions") {
			t.Error(err)
		}
		r.wantFunctions(pf+" potential", first+" y", second+" potential")
		if m := r.unmake("y", first); m != "" || r.content(numVFs) != "0" {
			t.Errorf("%q, %s functions", m, r.content(numVFs))
		}
	})
}

package nvidia

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/accelmux/accelmux/backends/engine"
	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
	"github.com/accelmux/accelmux/backends/nvidia/edits"
	"github.com/accelmux/accelmux/backends/nvidia/gpu"
	"github.com/accelmux/accelmux/backends/nvidia/xid"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
	"github.com/accelmux/accelmux/test/manifests"
)

const (
	uuidA = "GPU-aaaaaaaa-0000-0000-0000-000000000000"
	uuidB = "GPU-bbbbbbbb-0000-0000-0000-000000000000"
	busA  = "0000:65:00.0"
	busB  = "0000:66:00.0"
)

// GPUs are reset together with their NVLink peers as nvidia-smi's manual has it, by architecture and kind of link.
func TestResetGroups(t *testing.T) {
	const direct, switched, pcie = backendv1.LinkKind_LINK_KIND_NVLINK, backendv1.LinkKind_LINK_KIND_NVSWITCH, backendv1.LinkKind_LINK_KIND_PCIE_SWITCH
	before := []string{"Kepler", "Maxwell", "Pascal", "Volta", "Turing"}
	for _, architecture := range append(before, "Ampere", "Ada Lovelace", "Hopper", "Blackwell", "Rubin", "") {
		old := slices.Contains(before, architecture)
		for kind, together := range map[backendv1.LinkKind]bool{direct: old, switched: old || architecture == "Ampere", pcie: false} {
			// A chain, as peers of peers are in the group, too, and a pair beside it.
			var snapshot driver.Snapshot
			for _, uuid := range []string{"a", "b", "c", "d", "x", "y"} {
				snapshot.GPUs = append(snapshot.GPUs, driver.GPU{UUID: uuid, Architecture: architecture})
			}
			for _, pair := range []string{"cd", "ab", "bc", "yx"} {
				snapshot.Links = append(snapshot.Links, driver.Link{A: pair[:1], B: pair[1:], Kind: kind, Count: 1})
			}
			want := map[string]string{}
			if together {
				want = map[string]string{"a": "a", "b": "a", "c": "a", "d": "a", "x": "x", "y": "x"}
			}
			if got := groupsOf(snapshot); !maps.Equal(got, want) {
				t.Errorf("%s, %v: groups are %v, want %v", architecture, kind, got, want)
			}
		}
	}
	joined := driver.GPU{Architecture: "Ampere", Fabric: &driver.Fabric{State: "completed"}}
	if resetTogether(switched, joined) {
		t.Error("a GPU of Ampere is not reset alone though its fabric is set up")
	}
}

// listOf returns the devices and problems of GPUs with a strategy.
func listOf(t *testing.T, s strategy, gpus ...driver.GPU) ([]*sdk.Device, []string) {
	t.Helper()
	b := newBackend(slog.New(slog.DiscardHandler), seams{})
	table, err := xid.New("xid", xid.Settings{}, xid.Environment{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := &config{strategy: s, checks: gpu.Checks{Table: table}}
	var readings []gpu.Reading
	for _, g := range gpus {
		readings = append(readings, gpu.Reading{}.Next(g, t.TempDir()))
	}
	found := source{b, cfg}.list(snapshot{began: time.Now(), set: &edits.Set{}}, readings, nil)
	for _, u := range found.Units {
		for i := range u.Devices {
			u.Devices[i].EditsErr = nil
		}
	}
	return engine.ListOnce(engine.Options{Log: b.log}, &engine.Settings{Vendor: vendor{cfg, b}, Drivers: []engine.Driver{fixed{found}}})
}

// fixed is a driver whose scans always find the same.
type fixed struct{ found engine.Scan }

func (fixed) Name() string { return gpu.DriverName }

func (f fixed) Scan([]engine.Unit) engine.Scan { return f.found }

func (fixed) Reset(context.Context, []engine.Target) (string, error) { return "", nil }

// The MIG strategy decides what is listed, and single refuses devices of different kinds.
func TestStrategies(t *testing.T) {
	instance := func(uuid, profile string) driver.Instance { return driver.Instance{UUID: uuid, Profile: profile} }
	plain := driver.GPU{UUID: uuidA, PCIBusID: busA}
	cut := driver.GPU{UUID: uuidB, PCIBusID: busB, MIGEnabled: true, MIGPending: true, Instances: []driver.Instance{
		instance("MIG-1", "1g.10gb"), instance("MIG-2", "1g.10gb"),
	}}
	mixed := cut
	mixed.Instances = append([]driver.Instance{instance("MIG-3", "3g.40gb")}, cut.Instances...)
	for name, c := range map[string]struct {
		strategy strategy
		gpus     []driver.GPU
		want     string // class and ID of each
		problem  bool
	}{
		"none":                     {migNone, []driver.GPU{plain, cut}, "gpu " + uuidA + ", gpu " + uuidB, false},
		"mixed":                    {migMixed, []driver.GPU{plain, mixed}, "gpu " + uuidA + ", mig MIG-3, mig MIG-1, mig MIG-2", false},
		"single":                   {migSingle, []driver.GPU{cut}, "gpu MIG-1, gpu MIG-2", false},
		"single of GPUs":           {migSingle, []driver.GPU{plain}, "gpu " + uuidA, false},
		"single of two profiles":   {migSingle, []driver.GPU{mixed}, "", true},
		"single with a whole one":  {migSingle, []driver.GPU{plain, cut}, "", true},
		"mixed without instances":  {migMixed, []driver.GPU{plain, {UUID: uuidB, PCIBusID: busB, MIGEnabled: true, MIGPending: true}}, "gpu " + uuidA, true},
		"single without instances": {migSingle, []driver.GPU{{UUID: uuidB, PCIBusID: busB, MIGEnabled: true, MIGPending: true}}, "", true},
		"none without instances":   {migNone, []driver.GPU{{UUID: uuidB, PCIBusID: busB, MIGEnabled: true, MIGPending: true}}, "gpu " + uuidB, false},
	} {
		t.Run(name, func(t *testing.T) {
			devices, problems := listOf(t, c.strategy, c.gpus...)
			var got []string
			for _, d := range devices {
				got = append(got, d.GetClass()+" "+d.GetId())
				if d.GetClass() == classMIG && d.GetParentId() != uuidB {
					t.Errorf("%s is a part of %q, want %s", d.GetId(), d.GetParentId(), uuidB)
				}
			}
			if text := strings.Join(got, ", "); text != c.want || (len(problems) > 0) != c.problem {
				t.Errorf("listed are %q with problems %q, want %q", text, problems, c.want)
			}
		})
	}
}

// Verifies that GPUs and MIG devices have the attributes that claims for NVIDIA's DRA driver
// (cmd/gpu-kubelet-plugin/deviceinfo.go of NVIDIA/k8s-dra-driver-gpu) select by.
func TestAttributesOfClaims(t *testing.T) {
	whole := driver.GPU{UUID: uuidA, PCIBusID: busA, Name: "NVIDIA H100 80GB HBM3", Architecture: "Hopper", ComputeMajor: 9, MemoryBytes: 80 << 30}
	cut := whole
	cut.UUID, cut.PCIBusID, cut.MIGEnabled = uuidB, busB, true
	cut.Instances = []driver.Instance{{UUID: "MIG-1", Profile: "1g.10gb", MemoryBytes: 10 << 30}}
	devices, _ := listOf(t, migMixed, whole, cut)
	both := map[string]string{"productName": "NVIDIA H100 80GB HBM3", "architecture": "Hopper", "cudaComputeCapability": "9.0.0"}
	for i, own := range []map[string]string{
		{"type": "gpu", "uuid": uuidA, "profile": "", "parentUUID": ""},
		{"type": "mig", "uuid": "MIG-1", "profile": "1g.10gb", "parentUUID": uuidB},
	} {
		maps.Copy(own, both)
		for name, want := range own {
			a := devices[i].GetAttributes()[name]
			if got := a.GetStringValue() + a.GetVersionValue(); got != want {
				t.Errorf("%s of %s is %q, want %q", name, devices[i].GetId(), got, want)
			}
		}
		if devices[i].GetCapacities()["memory"] == 0 {
			t.Errorf("%s has no memory", devices[i].GetId())
		}
	}
}

// Verifies that a GPU whose NVLink fabric failed stays healthy, since it can be used
// without its peers, and that the problem is reported; and that one that has not joined yet is unhealthy. The GPU has the attributes of its fabric
// once it has joined, not before.
func TestFabric(t *testing.T) {
	joined := driver.Fabric{State: "completed", ClusterUUID: "c", Clique: 3}
	waiting := driver.Fabric{State: "in-progress", ClusterUUID: "c", Clique: 3}
	for name, c := range map[string]struct {
		gpu  driver.GPU
		want string // part of the problem; "" for no problem
		in   bool   // it has the fabric's attributes
		code string // of its fault
	}{
		"no fabric":          {gpu: driver.GPU{}},
		"joined":             {gpu: driver.GPU{Fabric: &joined, Condition: driver.Condition{FabricLimited: new(false)}}, in: true},
		"limited capacity":   {gpu: driver.GPU{Fabric: &joined, Condition: driver.Condition{FabricLimited: new(true)}}, want: "limited capacity", in: true},
		"not joined":         {gpu: driver.GPU{Fabric: &waiting}, code: "fabric-not-ready"},
		"not joined, in MIG": {gpu: driver.GPU{Fabric: &waiting, MIGEnabled: true, MIGPending: true}},
		"failed to join":     {gpu: driver.GPU{Fabric: &driver.Fabric{State: "completed", Err: driver.ErrFailed}}, want: "did not join its NVLink fabric"},
		"GPU without answer": {gpu: driver.GPU{Fabric: &waiting, Err: driver.ErrLost}},
	} {
		t.Run(name, func(t *testing.T) {
			c.gpu.UUID, c.gpu.PCIBusID = uuidA, busA
			devices, problems := listOf(t, migNone, c.gpu)
			if c.want == "" && len(problems) > 0 ||
				c.want != "" && (len(problems) != 1 || !strings.HasPrefix(problems[0], uuidA+": ") || !strings.Contains(problems[0], c.want)) {
				t.Errorf("problems are %q, want %q", problems, c.want)
			}
			if h := devices[0].GetHealth(); c.gpu.Err == nil && h.GetCode() != c.code {
				t.Errorf("the GPU is %v, want %q", h, c.code)
			}
			manifests.Declared(t, manifests.Load(t, "manifest.yaml"), "{}")(devices)
			for _, name := range []string{"fabricCluster", "fabricClique"} {
				if _, got := devices[0].GetAttributes()[name]; got != c.in {
					t.Errorf("it has the attribute %s: %v, want %v", name, got, c.in)
				}
			}
		})
	}
}

// Verifies that a GPU in MIG mode that is listed as a whole shows the fault of its MIG device.
func TestFaultOfAnUnlistedMIGDevice(t *testing.T) {
	for strategy, want := range map[strategy]string{migNone: "xid-48", migMixed: " xid-48"} {
		synctest.Test(t, func(t *testing.T) {
			lib := drivertest.New("H100 80GB", 1)
			lib.GPUs[0].SetMIG(true, instance(1), instance(2))
			r := start(t, lib, 1, fmt.Sprintf(`{"edits": {"mode": "runtime"}, "rescan": "1h", "mig": {"strategy": %q}}`, strategy))
			r.capability(0, 1)
			r.capability(0, 2)
			r.Until("all are healthy", healthy(len(strings.Split(want, " "))))
			lib.GPUs[0].Send(nvml.EventTypeXidCriticalError, 48, 2, driver.Whole)
			r.Until(want, func(inv *backendv1.Inventory) bool {
				var codes []string
				for i := range inv.GetDevices() {
					codes = append(codes, healthAt(i, inv).GetCode())
				}
				return strings.Join(codes, " ") == want
			})
		})
	}
}

package fpga

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

func nodes(d *backendv1.Device) (paths []string) {
	for _, node := range d.GetEdits().GetDeviceNodes() {
		paths = append(paths, filepath.Base(node.GetPath()))
	}
	return paths
}

// Each kind of region has the class and the nodes of the mode, and a hook only if settings need
// one before a start.
func TestModes(t *testing.T) {
	loaded, unreported, plain, platform := port("a", 0, functionA), port("a", 1, ""), port("b", 0, ""), port("c", 0, "")
	unreported.State = driver.Unreported
	plain.Kind, plain.State = driver.Plain, driver.Unreported
	platform.Kind, platform.State, platform.Name, platform.ID = driver.Platform, driver.Loaded, "xilinx_u200-1", "c"
	virtual := cardOf("d", 4, port("d", 0, functionB))
	virtual.Virtual, virtual.Board = true, "a"
	cards := []driver.Card{cardOf("a", 1, loaded, unreported), cardOf("b", 2, plain), cardOf("c", 3, platform), virtual}
	for settings, want := range map[string]string{
		`{}`: "a-port0 af [a.0] 0, a-port1 region [a.1] 0, b-port0 region [b.0] 0, c card [c.0] 0, d-port0 af [d.0] 0",
		`{"mode": "region", "prepare": {"reset": true}}`:           "a-port0 region [a.0] 1, a-port1 region [a.1] 1, b-port0 region [b.0] 1, c card [c.0] 1, d-port0 region [d.0] 1",
		`{"mode": "region-devel", "bitstreams": "BITSTREAMS"}`:     "a-port0 region [a.0 a-fme] 1, a-port1 region [a.1 a-fme] 1, b-port0 region [b.0] 1, c card [c.0] 1, d-port0 region [d.0] 1",
		`{"management": true, "prepare": {"leftovers": "report"}}`: "a-port0 af [a.0 a-fme] 1, a-port1 region [a.1 a-fme] 1, b-port0 region [b.0 b-fme] 1, c card [c.0 c-fme] 1, d-port0 af [d.0 d-fme] 1",
	} {
		run(t, settings, func(r *rig, _ *fake) {
			var all []string
			for _, d := range r.inventory("all devices", healthy(5)).GetDevices() {
				all = append(all, fmt.Sprint(d.GetId(), " ", d.GetClass(), " ", nodes(d), " ", len(d.GetHooks())))
			}
			if got := strings.Join(all, ", "); got != want {
				t.Errorf("%s:\n%s, want\n%s", settings, got, want)
			}
		}, cards...)
	}
}

// A device has attributes, its place and its reset group. Attributes that are too many or
// invalid are left out and reported.
func TestAttributes(t *testing.T) {
	region := port("a", 1, functionA)
	region.Attributes = map[string]*sdk.Attribute{"socket": sdk.Int(1), "model": sdk.String("the driver may not say that")}
	card := cardOf("a", 0x81, region)
	card.Serial, card.Attributes = "S1", map[string]*sdk.Attribute{}
	for i := range 40 {
		card.Attributes[fmt.Sprintf("x%02d", i)] = sdk.Int(int64(i))
	}
	shell := port("b", 0, "")
	shell.Kind, shell.Name, shell.ID, shell.Env = driver.Platform, "xilinx u200", "b", map[string]string{"A": "b"}
	other := cardOf("b", 0x82, shell)
	other.PCI.NUMANode, other.Board = -1, "board-b"
	run(t, `{"bitstreams": "BITSTREAMS"}`, func(r *rig, _ *fake) {
		r.Check = nil // the manifest declares none of x00
		inv := r.inventory("both", healthy(2))
		d := inv.GetDevices()[0]
		got := map[string]any{}
		for name, a := range d.GetAttributes() {
			if !strings.HasPrefix(name, "x") {
				got[name] = strings.TrimSpace(a.String())
			}
		}
		want := map[string]any{}
		for name, value := range map[string]string{
			"model": "Test card", "driver": "dfl", "board": "a", "regionName": "region-" + fits, "functionName": "af-" + functionA,
			"interfaceID": fits, "functionID": functionA, "serial": "S1",
		} {
			want[name] = sdk.String(value).String()
		}
		want["region"], want["virtual"], want["programmable"], want["socket"] = sdk.Int(1).String(), sdk.Bool(false).String(), sdk.Bool(true).String(), sdk.Int(1).String()
		for name := range want {
			want[name] = strings.TrimSpace(want[name].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
		if len(d.GetAttributes()) != maxAttributes || d.GetAttributes()["x00"] == nil || d.GetAttributes()["x39"] != nil {
			t.Errorf("%d attributes", len(d.GetAttributes()))
		}
		if d.GetParentId() != "a" || d.GetResetGroup() != "" || d.GetPciBusId() != "0000:81:00.0" || len(d.GetNumaNodes()) != 1 || d.GetNumaNodes()[0] != 1 {
			t.Errorf("it is at %v", d)
		}
		d = inv.GetDevices()[1]
		if d.GetParentId() != "" || d.GetResetGroup() != "board-b" || len(d.GetNumaNodes()) != 0 || d.GetAttributes()["platformName"] != nil || d.GetEdits().GetEnv()["A"] != "b" {
			t.Errorf("the shell is %v", d)
		}
		problems := fmt.Sprint(inv.GetProblems())
		if len(inv.GetProblems()) != 2 || !strings.Contains(problems, "attributes are left out") || !strings.Contains(problems, `"xilinx u200"`) {
			t.Errorf("problems %q", inv.GetProblems())
		}
	}, card, other)
}

package fpga

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
)

// All drivers are read in order, and each stays the same while its own settings and the host's
// paths do: some remember cards that are in reset.
func TestOpened(t *testing.T) {
	o := opened{}
	names := func(settings, root string) (names string, first any) {
		t.Helper()
		cfg, err := configure(json.RawMessage(settings), sdk.HostPaths{Sysfs: root, Devfs: "/dev", Procfs: "/proc"})
		fpgatest.OK(t, err)
		all := o.drivers(cfg)
		for _, d := range all {
			names += " " + d.Name()
		}
		return names, all[0]
	}
	all, _ := names(`{}`, "/sys")
	if all != " dfl opae xrt ama fpga-manager" {
		t.Errorf("the drivers are%s", all)
	}
	got, first := names(`{"drivers": ["manager", "xrt"]}`, "/sys")
	if got != " xrt fpga-manager" {
		t.Errorf("the drivers are%s, want the two in their order", got)
	}
	for settings, same := range map[string]bool{
		`{"drivers": ["xrt"], "mode": "region"}`: true, `{"drivers": ["xrt"], "xrt": {"root": "/host"}}`: false,
	} {
		if _, again := names(settings, "/sys"); (again == first) != same {
			t.Errorf("%s: the same driver: %v, want %v", settings, !same, same)
		}
	}
	if _, moved := names(`{"drivers": ["xrt"]}`, "/other"); fmt.Sprintf("%p", moved) == fmt.Sprintf("%p", first) {
		t.Error("with another root it is the same driver")
	}
}

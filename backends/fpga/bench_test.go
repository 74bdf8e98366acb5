package fpga

import (
	"encoding/json"
	"testing"

	"github.com/accelmux/accelmux/backends/fpga/fpgatest"
	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
)

// BenchmarkScan measures one round of all drivers with eight cards, every
// health.interval.
func BenchmarkScan(b *testing.B) {
	tree := fpgatest.Tree(b, fpgatree.NewMany(8))
	cfg, err := configure(json.RawMessage(`{}`), sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: "/proc"})
	fpgatest.OK(b, err)
	all := opened{}.drivers(cfg)
	b.ReportAllocs()
	for b.Loop() {
		for _, d := range all {
			source{driver: d, cfg: cfg}.Scan(nil)
		}
	}
}

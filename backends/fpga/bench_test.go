package fpga

import (
	"encoding/json"
	"testing"

	"github.com/accelmux/accelmux/backends/sdk"
	"github.com/accelmux/accelmux/test/fpgatree"
	"github.com/accelmux/accelmux/test/sysroot"
)

// BenchmarkScan is what one round of all drivers costs with eight cards, every
// health.interval.
func BenchmarkScan(b *testing.B) {
	tree, err := fpgatree.Write(sysroot.TempDir(b), fpgatree.NewMany(8))
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := configure(json.RawMessage(`{}`), sdk.HostPaths{Sysfs: tree.Sysfs(), Devfs: tree.Devfs(), Procfs: "/proc"})
	if err != nil {
		b.Fatal(err)
	}
	all := opened{}.drivers(cfg)
	b.ReportAllocs()
	for b.Loop() {
		for _, d := range all {
			source{driver: d, cfg: cfg}.Scan(nil)
		}
	}
}

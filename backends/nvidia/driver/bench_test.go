package driver_test

import (
	"testing"

	"github.com/accelmux/accelmux/backends/nvidia/driver"
	"github.com/accelmux/accelmux/backends/nvidia/driver/drivertest"
)

// Measures what the package adds to NVML's own time; the mock's time is included.
func BenchmarkFirstSnapshot(b *testing.B) {
	l := drivertest.New("H100 80GB", 8)
	l.Switch(18)
	for b.Loop() {
		d := driver.New(driver.Options{Load: l.Load})
		if err := d.Open(b.Context()); err != nil {
			b.Fatal(err)
		}
		if _, err := d.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := d.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	l := drivertest.New("H100 80GB", 8)
	d := driver.New(driver.Options{Load: l.Load})
	if err := d.Open(b.Context()); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := d.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if err := d.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}

package topology

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/accelmux/accelmux/core/inventory"
)

// benchMachines are what BenchmarkChoose asks, with the limit of the 99th percentile
// of one call on one core.
var benchMachines = []struct {
	name  string
	make  func() []Unit
	limit time.Duration
}{
	{"8-switched", func() []Unit { return switched(8, 18) }, 20 * time.Microsecond},
	{"8-mesh", dgx1, 20 * time.Microsecond},
	{"8-mi210", mi210, 20 * time.Microsecond},
	{"16-pcie", func() []Unit { return pcieOnly(16) }, 500 * time.Microsecond},
	{"16-torus", torus, 500 * time.Microsecond},
	{"16-random", func() []Unit { return random(16) }, 500 * time.Microsecond},
	{"16-ties", ties, 500 * time.Microsecond},
	{"63-mi300x", mi300x, 5 * time.Millisecond},
	{"1024-replicas-switched", func() []Unit { return replicas(switched(8, 18), 128) }, 5 * time.Millisecond},
	{"1024-replicas-mesh", func() []Unit { return replicas(dgx1(), 128) }, 5 * time.Millisecond},
	{"56-partitions-mesh", func() []Unit { return split(dgx1(), 7) }, 5 * time.Millisecond},
	{"60-random", func() []Unit { return random(60) }, 5 * time.Millisecond},
}

// ties are 16 halves of devices without links, on NUMA nodes that are no hierarchy: all
// that can be compared is compared for each set.
func ties() []Unit {
	units := split(machine(8, func(int, int) inventory.Link { return inventory.Link{} }), 2)
	for i, u := range units {
		u.Device.Links = nil
		u.Device.NUMANodes = [][]int{{0, 1}, {1, 2}, {0, 2}}[i%3]
	}
	return units
}

// requests are of every size, with all units available, and with a third of them in
// use.
func requests(units []Unit) []Request {
	all := ids(units)
	var some []string
	for i, id := range all {
		if i%3 != 1 {
			some = append(some, id)
		}
	}
	step := max(1, len(all)/64)
	var out []Request
	for _, available := range [][]string{all, some} {
		for size := 1; size < len(available); size += step {
			out = append(out, Request{Available: available, Size: size})
		}
	}
	return out
}

// BenchmarkChoose reports percentiles of calls of every size.
func BenchmarkChoose(b *testing.B) {
	for _, m := range benchMachines {
		for _, policy := range []Policy{BestLinks, Spread, Pack} {
			b.Run(fmt.Sprintf("%s/%s", m.name, policy), func(b *testing.B) {
				units := m.make()
				topology, rs := Prepare(units, Options{Policy: policy}), requests(units)
				b.ReportAllocs()
				var times []time.Duration
				defer onOneThread()()
				for i := 0; b.Loop(); i++ {
					start := cpu()
					topology.Choose(rs[i%len(rs)])
					times = append(times, cpu()-start)
				}
				report(b, times, m.limit)
			})
		}
	}
}

// onOneThread keeps a goroutine on its thread until what it returns is called.
func onOneThread() (end func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// cpu is how long this thread has run: a busy machine makes no difference. A call
// of it takes a quarter of a microsecond, which is counted.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		return 0
	}
	return time.Duration(now.Nano())
}

func report(b *testing.B, times []time.Duration, limit time.Duration) {
	slices.Sort(times)
	at := func(part float64) float64 { return float64(times[int(part*float64(len(times)-1))]) / 1e3 }
	b.ReportMetric(at(0.5), "p50-µs")
	b.ReportMetric(at(0.99), "p99-µs")
	if limit > 0 {
		b.ReportMetric(float64(limit)/1e3, "limit-µs")
	}
}

// BenchmarkPrepare is once for each change of links.
func BenchmarkPrepare(b *testing.B) {
	for _, m := range benchMachines {
		b.Run(m.name, func(b *testing.B) {
			units := m.make()
			b.ReportAllocs()
			for b.Loop() {
				Prepare(units, Options{})
			}
		})
	}
}

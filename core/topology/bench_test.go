package topology

import (
	"fmt"
	"math/bits"
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
	make  func(testing.TB) []Unit
	limit time.Duration
}{
	{"8-switched", func(testing.TB) []Unit { return switched(8, 18) }, 20 * time.Microsecond},
	{"8-mesh", func(testing.TB) []Unit { return dgx1() }, 20 * time.Microsecond},
	{"8-mi210", func(tb testing.TB) []Unit { return captured(tb, "amd/topo-mi210-xgmi-pcie.tar.gz") }, 20 * time.Microsecond},
	{"16-pcie", func(testing.TB) []Unit { return pcieOnly(16) }, 500 * time.Microsecond},
	{"16-torus", func(testing.TB) []Unit { return torus() }, 500 * time.Microsecond},
	{"16-random", func(testing.TB) []Unit { return random(16) }, 500 * time.Microsecond},
	{"16-ties", func(testing.TB) []Unit { return ties() }, 500 * time.Microsecond},
	{"63-mi300x", func(tb testing.TB) []Unit { return captured(tb, "amd/topo-mi300-cpx.tar.gz") }, 5 * time.Millisecond},
	{"1024-replicas-switched", func(testing.TB) []Unit { return replicas(switched(8, 18), 128) }, 5 * time.Millisecond},
	{"1024-replicas-mesh", func(testing.TB) []Unit { return replicas(dgx1(), 128) }, 5 * time.Millisecond},
	// No hierarchy and more than 16: what the time limit is for.
	{"56-partitions-mesh", func(testing.TB) []Unit { return split(dgx1(), 7) }, 0},
	{"60-random", func(testing.TB) []Unit { return random(60) }, 0},
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

// BenchmarkChoose reports percentiles of calls of every size, how many of the answers are
// proven, and how much greater, at most, the links of another one could be.
func BenchmarkChoose(b *testing.B) {
	for _, m := range benchMachines {
		for _, policy := range []Policy{BestLinks, Spread, Pack} {
			b.Run(fmt.Sprintf("%s/%s", m.name, policy), func(b *testing.B) {
				units := m.make(b)
				topology, rs := Prepare(units, Options{Policy: policy}), requests(units)
				b.ReportAllocs()
				var times []time.Duration
				exact, missed := 0, 0.0
				defer onOneThread()()
				for i := 0; b.Loop(); i++ {
					start := cpu()
					r := topology.Choose(rs[i%len(rs)])
					times = append(times, cpu()-start)
					if r.Exact {
						exact++
					}
					missed = max(missed, float64(r.Missed)/float64(max(1, r.Score.Links)))
				}
				report(b, times, m.limit)
				b.ReportMetric(100*float64(exact)/float64(len(times)), "exact-%")
				b.ReportMetric(100*missed, "missed-%")
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
			units := m.make(b)
			b.ReportAllocs()
			for b.Loop() {
				Prepare(units, Options{})
			}
		})
	}
}

// matrix is what the baselines work on.
func matrix(units []Unit) [][]int64 {
	t := Prepare(units, Options{})
	out := make([][]int64, len(t.units))
	for i := range out {
		out[i] = make([]int64, len(t.units))
		for j := range out {
			if a, b := t.device[i], t.device[j]; a != b {
				out[i][j] = t.graph.weight(a, b)
			}
		}
	}
	return out
}

// BenchmarkBruteForce sums the links of every set of a size up, and compares nothing
// else: the floor of what comparing all sets costs without preparation.
func BenchmarkBruteForce(b *testing.B) {
	for name, units := range map[string][]Unit{"8-mesh": dgx1(), "16-torus": torus()} {
		b.Run(name, func(b *testing.B) {
			weights, n := matrix(units), len(units)
			defer onOneThread()()
			var times []time.Duration
			for i := 0; b.Loop(); i++ {
				start := cpu()
				brute(weights, n, 1+i%(n-1))
				times = append(times, cpu()-start)
			}
			report(b, times, 0)
		})
	}
}

func brute(weights [][]int64, n, size int) (best int64) {
	best = -1
	for set := uint32(1)<<size - 1; set < 1<<n; set = nextOfSize(set) {
		sum := int64(0)
		for a := set; a != 0; a &= a - 1 {
			for o := a & (a - 1); o != 0; o &= o - 1 {
				sum += weights[bits.TrailingZeros32(a)][bits.TrailingZeros32(o)]
			}
		}
		best = max(best, sum)
	}
	return best
}

// BenchmarkGreedy starts with the best pair and adds the unit with the best links to
// what it has, one after the other: quick, and not exact. short-% is by how much its
// links are worse than those of Choose in the mean, and wrong-% how often.
func BenchmarkGreedy(b *testing.B) {
	for _, m := range benchMachines {
		b.Run(m.name, func(b *testing.B) {
			units := m.make(b)
			weights, topology := matrix(units), Prepare(units, Options{})
			rs, wrong, short := requests(units), 0, 0.0
			open := make([][]int, len(rs))
			for i, r := range rs {
				for _, id := range r.Available {
					open[i] = append(open[i], int(topology.index[id]))
				}
				best := topology.Choose(r).Score.Links
				if got := greedy(weights, open[i], r.Size); got < best {
					wrong++
					short += float64(best-got) / float64(best)
				}
			}
			var times []time.Duration
			defer onOneThread()()
			for i := 0; b.Loop(); i++ {
				start := cpu()
				greedy(weights, open[i%len(rs)], rs[i%len(rs)].Size)
				times = append(times, cpu()-start)
			}
			report(b, times, 0)
			b.ReportMetric(100*float64(wrong)/float64(len(rs)), "wrong-%")
			b.ReportMetric(100*short/float64(len(rs)), "short-%")
		})
	}
}

func greedy(weights [][]int64, open []int, size int) (sum int64) {
	gains, taken := make([]int64, len(weights)), make([]bool, len(weights))
	next, pair := open[0], int64(-1)
	for _, i := range open {
		for _, j := range open {
			if w := weights[i][j]; w > pair {
				next, pair = i, w
			}
		}
	}
	for n := 1; ; n++ {
		sum += gains[next]
		taken[next] = true
		if n == size {
			return sum
		}
		best, last := int64(-1), next
		for _, i := range open {
			gains[i] += weights[last][i]
			if !taken[i] && gains[i] > best {
				next, best = i, gains[i]
			}
		}
	}
}

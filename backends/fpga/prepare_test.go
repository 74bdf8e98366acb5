package fpga

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const programming = `{"bitstreams": "BITSTREAMS", "health": {"interval": "1s"}}`

// programs fails the test unless exactly these regions were programmed until now.
func (r *rig) programs(f *fake, want ...string) {
	r.t.Helper()
	if got, _ := f.done(); !cmp.Equal(got, want) {
		r.t.Errorf("programmed: %q, want %q", got, want)
	}
}

// A file is programmed once, and again only if it changed or something else is loaded; the
// listing follows. A start reads the cards no more often than it must: that is what it costs.
func TestProgram(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("an empty region", healthy(1))
		r.gbs("a.gbs", functionA)
		r.gbs("b.gbs", functionB)
		scans := f.count()
		r.do(r.prepare("a.gbs", nil, "a-port0"))
		if scans = f.count() - scans; scans != 2 {
			t.Errorf("%d scans, want one before and one after the programming", scans)
		}
		r.programs(f, "a-port0 a.gbs")
		has := func(inv *backendv1.Inventory) bool {
			return text(device(inv, "a-port0"), "functionName") == "af-"+functionA
		}
		if !has(r.Last) {
			r.inventory("its function", has)
		}
		scans = f.count()
		r.do(r.prepare("a.gbs", nil, "a-port0"))
		if scans = f.count() - scans; scans != 1 {
			t.Errorf("%d scans for a file that is loaded, want 1", scans)
		}
		r.do(r.prepare("a.gbs", []string{"a-port0"}, "a-port0"))
		r.programs(f, "a-port0 a.gbs")
		r.do(r.prepare("b.gbs", nil, "a-port0"))
		r.programs(f, "a-port0 a.gbs", "a-port0 b.gbs")
		r.gbs("b.gbs", functionB) // built again, with the same ID
		r.do(r.prepare("b.gbs", nil, "a-port0"))
		r.programs(f, "a-port0 a.gbs", "a-port0 b.gbs", "a-port0 b.gbs")
		f.change(func() { f.reading.Cards[0].Regions[0] = port("a", 0, functionA) }) // by others
		r.inventory("another function", func(inv *backendv1.Inventory) bool { return text(device(inv, "a-port0"), "functionID") == functionA })
		r.do(r.prepare("a.gbs", nil, "a-port0")) // by the ID alone
		r.do(r.prepare("b.gbs", nil, "a-port0"))
		r.programs(f, "a-port0 a.gbs", "a-port0 b.gbs", "a-port0 b.gbs", "a-port0 b.gbs")
	}, cardOf("a", 1, port("a", 0, "")))
}

// A region that does not report its content is programmed for each container that has it alone,
// and left as it is for those that share it.
func TestProgramUnreported(t *testing.T) {
	unreported := port("a", 0, "")
	unreported.State = driver.Unreported
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("a region", healthy(1))
		r.file("a bitstream without a header", r.root, "bitstreams/x.bin")
		r.file("another one without a header", r.root, "bitstreams/y.bin")
		r.says("shared and not known", r.prepare("x.bin", []string{"a-port0"}, "a-port0"), "x.bin was not programmed into region 0 of the card a", "an unknown content")
		r.do(r.prepare("x.bin", nil, "a-port0"))
		r.do(r.prepare("x.bin", []string{"a-port0"}, "a-port0"))
		r.programs(f, "a-port0 x.bin")
		r.says("shared, another", r.prepare("y.bin", []string{"a-port0"}, "a-port0"), "y.bin was not programmed", "uses it with x.bin")
		r.do(r.prepare("x.bin", nil, "a-port0"))
		r.programs(f, "a-port0 x.bin", "a-port0 x.bin")
	}, cardOf("a", 1, unreported))
}

// A refused file leaves the card as it was, and the error names the file and the reason.
func TestRefused(t *testing.T) {
	fixed := port("b", 0, functionB)
	fixed.Programmable = false
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("all regions", healthy(2))
		r.gbs("a.gbs", functionA)
		refused := func(what string, err error, words ...string) {
			t.Helper()
			r.says(what, err, words...)
			r.programs(f)
		}
		refused("a device that is not there", r.prepare("a.gbs", nil, "c-port0"), "there is no device c-port0")
		refused("a file that is not there", r.prepare("x.gbs", nil, "a-port0"), "bitstreams/x.gbs", "no such file")
		refused("a path", r.prepare("../a.gbs", nil, "a-port0"), "it is a path")
		refused("a region that is fixed", r.prepare("a.gbs", nil, "b-port0"), "b-port0", "cannot be programmed from here")
		r.gbs("b.gbs", functionB)
		refused("nothing, since it has that", r.prepare("b.gbs", nil, "b-port0"), "no error")
		refused("a shared device with another function", r.prepare("a.gbs", []string{"a-port0"}, "a-port0"),
			"a.gbs was not programmed into region 0 of the card a", "another container uses it", functionB)
		f.change(func() { f.misfit = errors.New("a.gbs is for another card") })
		refused("a misfit", r.prepare("a.gbs", nil, "a-port0"), "a.gbs is for another card")
		f.change(func() {
			f.misfit = nil
			f.reading.Cards[0].Regions[0].Faults = []driver.Fault{{Code: "port-errors", Recovery: sdk.RecoveryReset, Text: "errors is 0x1"}}
		})
		refused("a faulty region", r.prepare("a.gbs", nil, "a-port0"), "errors is 0x1")
		f.change(func() { f.reading.Cards[0].Regions[0].Faults = nil })
		r.configure(`{}`)
		synctest.Wait()
		refused("without a directory", r.prepare("a.gbs", nil, "a-port0"), "nothing is programmed on this node", "bitstreams")
	}, cardOf("a", 1, port("a", 0, functionB)), cardOf("b", 2, fixed))
}

// Without a file a container gets the loaded content; if there is none it does not start, unless
// it has the nodes to program the region itself.
func TestNoFile(t *testing.T) {
	card := cardOf("a", 1, port("a", 0, ""), port("a", 1, functionA))
	for settings, starts := range map[string]bool{programming: false, `{"mode": "region-devel", "prepare": {"leftovers": "report"}}`: true} {
		run(t, settings, func(r *rig, f *fake) {
			r.inventory("both regions", healthy(2))
			r.do(r.prepare("", nil, "a-port1"))
			if err := r.prepare("", nil, "a-port0"); starts {
				r.do(err)
			} else {
				r.says("nothing is loaded", err, "no accelerator function is loaded in region 0 of the card a", "fpga.intel.com/x", "parameter bitstream")
			}
			r.programs(f)
		}, card)
	}
}

// A programming that fails, or after which something else is loaded, fails the start; the
// next one tries again.
func TestProgramFails(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("an empty region", healthy(1))
		r.gbs("a.gbs", functionA)
		fail := func(f *fake, do func(ctx context.Context, usual func() error) error) {
			f.change(func() { f.program = do })
		}
		fail(f, func(context.Context, func() error) error { return errors.New("the card says CRC error") })
		r.says("it fails", r.prepare("a.gbs", nil, "a-port0"), "a-port0", "the card says CRC error")
		fail(f, func(context.Context, func() error) error { return nil })
		r.says("it did nothing", r.prepare("a.gbs", nil, "a-port0"), "a.gbs was programmed into region 0 of the card a, which has")
		fail(f, func(_ context.Context, usual func() error) error {
			err := usual()
			f.change(func() {
				f.reading.Cards[0].Regions[0].Faults = []driver.Fault{{Code: "port-errors", Recovery: sdk.RecoveryReset, Text: "errors is 0x4"}}
			})
			return err
		})
		r.says("it has a fault", r.prepare("a.gbs", nil, "a-port0"), "was programmed into", "errors is 0x4")
		fail(f, nil)
		f.change(func() { f.reading.Cards[0].Regions[0].Faults = nil })
		r.do(r.prepare("a.gbs", nil, "a-port0"))
	}, cardOf("a", 1, port("a", 0, "")))
}

// If two containers request different files for one region at once, the first gets its file and
// the second is refused. Requests for the same file share one programming.
func TestConflict(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("an empty region", healthy(1))
		r.gbs("a.gbs", functionA)
		r.gbs("b.gbs", functionB)
		begun, free := make(chan struct{}), make(chan struct{})
		f.change(func() {
			f.program = func(_ context.Context, usual func() error) error {
				close(begun)
				<-free
				return usual()
			}
		})
		var errs [3]error
		r.During(func() {
			var all sync.WaitGroup
			all.Go(func() { errs[0] = r.prepareCall(r.t.Context(), "a.gbs", nil, "a-port0") })
			<-begun
			all.Go(func() { errs[1] = r.prepareCall(r.t.Context(), "a.gbs", nil, "a-port0") })
			all.Go(func() {
				errs[2] = r.prepareCall(r.t.Context(), "b.gbs", nil, "a-port0")
				<-time.After(5 * time.Second)
				close(free)
			})
			all.Wait()
		})
		r.do(errors.Join(errs[0], errs[1]))
		r.says("the other file", errs[2], "b.gbs was not programmed into region 0 of the card a", "asks for a.gbs")
		r.programs(f, "a-port0 a.gbs")
		f.change(func() { f.program = nil })
		r.do(r.prepare("b.gbs", nil, "a-port0")) // the claim is over
		r.programs(f, "a-port0 a.gbs", "a-port0 b.gbs")
	}, cardOf("a", 1, port("a", 0, "")))
}

// A region is reset before a start if settings require it, which clears latched errors, and
// never while another container holds it.
func TestResetBeforeStart(t *testing.T) {
	run(t, `{"bitstreams": "BITSTREAMS", "prepare": {"reset": true}, "health": {"interval": "1s"}}`, func(r *rig, f *fake) {
		r.inventory("the region", healthy(1))
		r.gbs("a.gbs", functionA)
		resets := func(want int) {
			t.Helper()
			if _, got := f.done(); len(got) != want {
				t.Errorf("%d resets, want %d", len(got), want)
			}
		}
		r.do(r.prepare("", nil, "a-port0"))
		resets(1)
		r.do(r.prepare("", []string{"a-port0"}, "a-port0"))
		r.do(r.prepare("a.gbs", []string{"a-port0"}, "a-port0"))
		resets(1)
		f.change(func() {
			f.reading.Cards[0].Regions[0].Faults = []driver.Fault{{Code: "port-errors", Recovery: sdk.RecoveryReset, Text: "errors is 0x1"}}
		})
		r.inventory("the fault", only("a-port0", "port-errors"))
		r.do(r.prepare("a.gbs", nil, "a-port0"))
		resets(2)
		f.change(func() { f.reset = func(context.Context) error { return errors.New("the port does not answer") } })
		r.says("a reset that fails", r.prepare("a.gbs", nil, "a-port0"), "reset before the start", "the port does not answer")
		r.programs(f)
	}, cardOf("a", 1, port("a", 0, functionA)))
}

// A missing directory of bitstreams is reported before a container asks for a file, until it
// exists.
func TestDirectory(t *testing.T) {
	run(t, `{"bitstreams": "BITSTREAMS/crypto", "health": {"interval": "1s"}}`, func(r *rig, _ *fake) {
		r.inventory("the problem", func(inv *backendv1.Inventory) bool {
			return healthy(1)(inv) && len(inv.GetProblems()) == 1 &&
				strings.Contains(inv.GetProblems()[0], "bitstreams/crypto, cannot be opened: no such file or directory: make it on the node")
		})
		r.do(os.Mkdir(filepath.Join(r.root, "bitstreams/crypto"), 0o755))
		r.inventory("the end of it", func(inv *backendv1.Inventory) bool { return healthy(1)(inv) && len(inv.GetProblems()) == 0 })
	}, cardOf("a", 1, port("a", 0, functionA)))
}

package fpga

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/accelmux/accelmux/backends/fpga/driver"
	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// A region that a failed programming leaves in reset has a fault with the reason at once, which
// no time limit hides. When it is back its content is unknown, whatever ID it reports: that is
// reported, no container without a file starts with it, and it is programmed again.
func TestFailedProgramming(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("the region", healthy(1))
		r.gbs("a.gbs", functionA)
		f.change(func() {
			f.program = func(context.Context, func() error) error {
				f.change(func() { f.region("a", 0).State = driver.Busy })
				return errors.New("the card says CRC error; unbind the driver")
			}
		})
		r.says("it fails", r.prepare("a.gbs", nil, "a-port0"), "CRC error")
		reported := func(inv *backendv1.Inventory) bool {
			message := device(inv, "a-port0").GetHealth().GetMessage()
			return only("a-port0", "programming-failed")(inv) && strings.Contains(message, "a.gbs") && strings.Contains(message, "CRC error; unbind the driver")
		}
		if !reported(r.Last) {
			r.inventory("the fault", reported)
		}
		if all := r.idle(2 * (2 * time.Minute)); len(all) > 0 {
			t.Errorf("the fault has become %v", sdktest.Summary(all[len(all)-1]))
		}
		r.says("in reset", r.prepare("a.gbs", nil, "a-port0"), "CRC error")
		f.change(func() {
			*f.region("a", 0) = port("a", 0, functionA)
			f.program = nil
		})
		r.inventory("it is back", func(inv *backendv1.Inventory) bool {
			problems := fmt.Sprint(inv.GetProblems())
			return healthy(1)(inv) && strings.Contains(problems, "a-port0: programming a.gbs failed, and until") && strings.Contains(problems, "CRC error")
		})
		r.says("no file", r.prepare("", nil, "a-port0"), "the content of region 0 of the card a is not known", "a.gbs", "CRC error", "parameter bitstream")
		r.says("shared", r.prepare("a.gbs", []string{"a-port0"}, "a-port0"), "what is left since programming a.gbs failed")
		r.programs(f)
		r.do(r.prepare("a.gbs", nil, "a-port0")) // though it shows this ID
		r.programs(f, "a-port0 a.gbs")
		r.do(r.prepare("", nil, "a-port0"))
		if problems := r.Last.GetProblems(); len(problems) > 0 {
			r.inventory("the end of it", func(inv *backendv1.Inventory) bool { return len(inv.GetProblems()) == 0 })
		}
	}, cardOf("a", 1, port("a", 0, functionB)))
}

// After a programming that changed nothing the content of the region is still known.
func TestUntouched(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("the region", healthy(1))
		r.gbs("a.gbs", functionA)
		r.gbs("b.gbs", functionB)
		f.change(func() {
			f.program = func(context.Context, func() error) error {
				return fmt.Errorf("program it: %w", driver.UntouchedError{Err: errors.New("another program has it")})
			}
		})
		r.says("it fails", r.prepare("b.gbs", nil, "a-port0"), "another program has it")
		for _, inv := range r.idle(10 * time.Second) {
			if len(inv.GetProblems()) > 0 {
				t.Errorf("problems %q", inv.GetProblems())
			}
		}
		r.do(r.prepare("", nil, "a-port0"))
		r.do(r.prepare("a.gbs", nil, "a-port0"))
		r.programs(f)
	}, cardOf("a", 1, port("a", 0, functionA)))
}

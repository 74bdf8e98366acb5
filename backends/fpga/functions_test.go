package fpga

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/backends/sdk/sdktest"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	functionOfA = "a-port0-af-d8424dc4a4a3"
	functionOfB = "a-port0-af-9aeffe5f8457"
)

// listed returns the devices, each with its holder or "potential".
func listed(inv *backendv1.Inventory) (all []string) {
	for _, d := range inv.GetDevices() {
		state := d.GetMadeFor()
		if d.GetPotential() {
			state = "potential"
		}
		all = append(all, d.GetId()+" "+state)
	}
	slices.Sort(all)
	return all
}

// wantListed waits until these devices are listed.
func (r *rig) wantListed(want ...string) *backendv1.Inventory {
	r.t.Helper()
	slices.Sort(want)
	if cmp.Equal(listed(r.Last), want) {
		return r.Last
	}
	return r.inventory(fmt.Sprint(want), func(inv *backendv1.Inventory) bool { return cmp.Equal(listed(inv), want) })
}

// function has one device prepared for a claim.
func (r *rig) function(id, claim string) (*backendv1.PrepareResponse, error) {
	r.t.Helper()
	var answer *backendv1.PrepareResponse
	var err error
	r.During(func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), 25*time.Second)
		defer cancel()
		answer, err = r.Prepare(ctx, &backendv1.PrepareRequest{
			Holder: &backendv1.Holder{Id: claim, Kind: backendv1.HolderKind_HOLDER_KIND_CLAIM}, Devices: sdktest.Held(nil, id), Resource: "fpga.accelmux.io",
		})
	})
	return answer, err
}

func (r *rig) releaseFunction(id, claim string) {
	r.t.Helper()
	r.During(func() {
		answer, err := r.Release(r.t.Context(), &backendv1.ReleaseRequest{Holder: &backendv1.Holder{Id: claim}, Devices: sdktest.Held(nil, id)})
		if err != nil || !answer.GetResults()[0].GetReleased() {
			r.t.Errorf("release %s: %v, %v", id, answer, err)
		}
	})
}

// Verifies that in the mode dynamic a region is listed as each function that a bitstream has for its interface,
// all of one counter; that Prepare programs it, once for a claim; that no other function gets the region until
// Release, which leaves the content; and that a restart of the backend finds what claims have.
func TestFunctions(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("a region", healthy(1))
		r.gbs("a.gbs", functionA)
		r.gbs("b.gbs", functionB)
		r.file("no bitstream", r.root, "bitstreams/notes.txt")
		r.configure(dynamicIn(r))
		inv := r.wantListed(functionOfA+" potential", functionOfB+" potential")
		d := device(inv, functionOfA)
		if len(d.GetHooks()) != 2 || !d.GetSlowToPrepare() || d.GetEdits() != nil || d.GetParentId() != "a-port0" || d.GetClass() != classAF ||
			text(d, "functionID") != functionA || text(d, "functionName") != "af-934.d84.k0YRbaUtXKiwaqmjie98jdhCTcSko8QT-J5DNoP5BAs" || text(d, "bitstream") != "a.gbs" ||
			d.GetConsumes()[0].GetCounterSet() != inv.GetCounterSets()[0].GetName() || len(inv.GetCounterSets()) != 1 {
			t.Errorf("%v, sets %v", d, inv.GetCounterSets())
		}
		for range 2 {
			answer, err := r.function(functionOfA, "x")
			if r.do(err); len(answer.GetEdits()[functionOfA].GetDeviceNodes()) != 1 {
				t.Errorf("the claim gets %v", answer.GetEdits())
			}
		}
		r.programs(f, "a-port0 a.gbs")
		r.wantListed(functionOfA+" x", functionOfB+" potential")
		_, err := r.function(functionOfB, "y")
		r.says("a region that another claim has", err, functionOfA, "another claim")
		r.wantListed(functionOfA+" x", functionOfB+" potential")

		r.do(os.Remove(filepath.Join(r.root, "bitstreams/a.gbs")))
		r.backend.mu.Lock()
		r.backend.cfg = nil // as in another process
		r.backend.mu.Unlock()
		r.configure(dynamicIn(r))
		r.inventory("no bitstream has the function, and a claim does", func(inv *backendv1.Inventory) bool {
			d := device(inv, functionOfA)
			return d.GetMadeFor() == "x" && text(d, "bitstream") == ""
		})
		r.releaseFunction(functionOfA, "other")
		r.wantListed(functionOfA+" x", functionOfB+" potential")
		r.releaseFunction(functionOfA, "x")
		r.wantListed(functionOfB + " potential")
		_, err = r.function(functionOfB, "y")
		r.do(err)
		r.programs(f, "a-port0 a.gbs", "a-port0 b.gbs")
		r.wantListed(functionOfB + " y")
	}, cardOf("a", 1, port("a", 0, "")))
}

func dynamicIn(r *rig) string {
	return fmt.Sprintf(`{"mode": "dynamic", "bitstreams": "BITSTREAMS", "stateFile": %q, "health": {"interval": "1s"}}`, filepath.Join(r.root, "functions.json"))
}

// Verifies that a function which cannot be programmed has the driver's words, and leaves nothing; and that the
// devices of a region are reset together.
func TestFunctionsFail(t *testing.T) {
	run(t, programming, func(r *rig, f *fake) {
		r.inventory("a region", healthy(1))
		r.gbs("a.gbs", functionA)
		r.gbs("b.gbs", functionB)
		r.configure(dynamicIn(r))
		r.wantListed(functionOfA+" potential", functionOfB+" potential")
		f.change(func() {
			f.program = func(context.Context, func() error) error { return errors.New("the card refused the signature") }
		})
		_, err := r.function(functionOfA, "x")
		r.says("a refused bitstream", err, "the card refused the signature")
		r.wantListed(functionOfA+" potential", functionOfB+" potential")
		f.change(func() { f.program = nil })
		r.gbs("a.gbs", functionB) // replaced since the list was made
		_, err = r.function(functionOfA, "x")
		r.says("another file", err, functionB, "was to have "+functionA)
		r.gbs("a.gbs", functionA)
		r.wantListed(functionOfA+" potential", functionOfB+" potential")
		var results *backendv1.ResetResponse
		r.During(func() {
			results, err = r.Reset(r.t.Context(), &backendv1.ResetRequest{DeviceIds: []string{functionOfA, functionOfB}})
		})
		if _, resets := f.done(); err != nil || len(results.GetResults()) != 2 || !results.GetResults()[1].GetRecovered() || len(resets) != 1 {
			t.Errorf("%v, %v, resets %q", results, err, resets)
		}
	}, cardOf("a", 1, port("a", 0, "")))
}

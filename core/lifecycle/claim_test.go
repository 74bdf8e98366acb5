package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/health"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// preparer answers Prepare with err, and records the calls.
type preparer struct {
	*backend
	calls []*backendv1.PrepareRequest
	err   error
}

func (p *preparer) Prepare(_ context.Context, _ string, r *backendv1.PrepareRequest, _ time.Duration, ended func()) (*backendv1.PrepareResponse, error) {
	ended()
	p.calls = append(p.calls, r)
	return &backendv1.PrepareResponse{}, p.err
}

// claimRig has a rig whose round has devices a to d, which ask for Prepare.
func claimRig(t *testing.T) (*rig, *preparer, map[string]*inventory.Device) {
	t.Helper()
	r, p := newRig(t), &preparer{}
	p.backend = r.backend
	r.l.opts.Backends = p
	devices := map[string]*inventory.Device{}
	backend := &inventory.Backend{Name: "mock"}
	for _, id := range []string{"a", "b", "c", "d"} {
		d := given(id, map[string]string{"V": id, "ONE": "x"}, "V").Device
		d.Hooks = inventory.Hooks{Prepare: true}
		devices[id] = d
		backend.Devices = append(backend.Devices, d)
	}
	r.round = roundWith(&inventory.Snapshot{Backends: []*inventory.Backend{backend}}, &health.View{})
	return r, p, devices
}

var theClaim = holders.Claim{Driver: "mock.accelmux.io", UID: "uid-1", Namespace: "ns", Name: "gpus"}

// asked is what the claim is to get.
func asked(claim holders.Claim, devices ...ClaimDevice) ClaimRequest {
	r := ClaimRequest{Record: &holders.ClaimRecord{Claim: claim}, Devices: devices}
	for _, d := range devices {
		r.Record.Devices = append(r.Record.Devices, holders.ClaimDevice{
			Request: d.Request, Pool: "node", Name: d.Device.ID, Backend: d.Device.Backend, ID: d.Device.ID, Admin: d.Admin, CDI: cdi.ClaimName(d.Device.Key, string(claim.UID)),
		})
	}
	return r
}

// Verifies that the edits of a potential device are for admin access alone: a claim for which it is made gets those of
// what was made.
func TestEditsOfAPotentialDevice(t *testing.T) {
	r, _, devices := claimRig(t)
	devices["a"].Potential = true
	for _, admin := range []bool{false, true} {
		request := asked(theClaim, ClaimDevice{Device: devices["a"], Request: "one", Admin: admin})
		err := r.l.PrepareClaim(t.Context(), request)
		if got := string(request.Record.Devices[0].Edits); err != nil || strings.Contains(got, "V=a") != admin {
			t.Errorf("with admin access %v: %s, %v", admin, got, err)
		}
	}
}

// Verifies that the devices of a claim are prepared for it, those with the same parameters in one
// call; that each gets a definition of the claim's own with the variables of its request's
// devices; and that a device with admin access is left as it is, and has further edits.
func TestPrepareClaim(t *testing.T) {
	r, p, devices := claimRig(t)
	for _, id := range []string{"c", "d"} {
		devices[id].AdminEdits = inventory.Edits{Env: inventory.Named(map[string]string{"ADMIN": "true", "ONE": "y"})}
	}
	request := asked(theClaim, []ClaimDevice{
		{Device: devices["b"], Request: "one", Parameters: json.RawMessage(`{"x":1}`)},
		{Device: devices["a"], Request: "one", Parameters: json.RawMessage(`{"x":1}`)},
		{Device: devices["c"], Request: "two", Shared: true, Amounts: map[string]int64{"memory": 8}},
		{Device: devices["d"], Request: "three", Admin: true},
	}...)
	if err := r.l.PrepareClaim(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range request.Record.Devices {
		got = append(got, d.CDI+" "+string(d.Edits))
	}
	want := []string{
		`mock.accelmux.io/holder=b::uid-1 {"env":["ONE=x","V=a,b"]}`,
		`mock.accelmux.io/holder=a::uid-1 {"env":["ONE=x","V=a,b"]}`,
		`mock.accelmux.io/holder=c::uid-1 {"env":["ONE=x","V=c"]}`,
		`mock.accelmux.io/holder=d::uid-1 {"env":["ADMIN=true","ONE=y","V=d"]}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the definitions (-want +got):\n%s", diff)
	}
	if len(p.calls) != 2 || cmp.Diff([]string{"a", "b"}, deviceIDs(p.calls[0])) != "" || string(p.calls[0].GetParametersJson()) != `{"x":1}` ||
		cmp.Diff([]string{"c"}, deviceIDs(p.calls[1])) != "" || p.calls[1].GetParametersJson() != nil ||
		p.calls[1].GetDevices()[0].GetCapacities()["memory"] != 8 ||
		p.calls[0].GetHolder().GetKind() != backendv1.HolderKind_HOLDER_KIND_CLAIM || p.calls[0].GetHolder().GetId() != "uid-1" {
		t.Errorf("the calls are %v", p.calls)
	}
	for id, want := range map[string]bool{"a": true, "b": true, "c": true, "d": false} {
		if held := r.book.Held(devices[id].Key); held != want {
			t.Errorf("device %s is held: %v", id, held)
		}
	}
	defined := func() (names []string) {
		for _, d := range r.store.Definitions() {
			names = append(names, d.Name)
		}
		return names
	}
	admin := asked(holders.Claim{Driver: theClaim.Driver, UID: "uid-3", Namespace: "ns", Name: "admin"}, ClaimDevice{Device: devices["d"], Request: "x", Admin: true})
	if err := errors.Join(r.l.PrepareClaim(t.Context(), admin), r.l.EndClaim(admin.Record.ID())); err != nil {
		t.Fatal(err)
	}
	if got := defined(); len(got) != 4 || slices.Contains(got, admin.Record.Devices[0].CDI) {
		t.Errorf("after the end of admin access there is %q", got)
	}
	other := asked(holders.Claim{UID: "uid-2", Namespace: "ns", Name: "other"}, ClaimDevice{Device: devices["d"], Request: "x"}, ClaimDevice{Device: devices["a"], Request: "x"})
	if err := r.l.PrepareClaim(t.Context(), other); err == nil || !strings.Contains(err.Error(), "claim ns/gpus has it") || r.book.Held(devices["d"].Key) {
		t.Errorf("the device of another claim: %v", err)
	}
}

// Verifies that after a preparation that failed and the claim's end its devices are released, that the
// next preparation does not begin before that, and that the error names backend and devices.
func TestPrepareClaimFails(t *testing.T) {
	r, p, devices := claimRig(t)
	p.err = errors.New("no such program")
	request := asked(theClaim, ClaimDevice{Device: devices["a"], Request: "one"}, ClaimDevice{Device: devices["b"], Request: "one"})
	err := r.l.PrepareClaim(t.Context(), request)
	if err == nil || !strings.Contains(err.Error(), "backend mock could not prepare [a b]") || !strings.Contains(err.Error(), "no such program") {
		t.Errorf("the error is %v", err)
	}
	if err := r.l.EndClaim(theClaim.ID()); err != nil || r.book.Held(devices["a"].Key) || r.book.Held(devices["b"].Key) {
		t.Errorf("a claim that ended has devices; %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.book.Run(ctx) }()
	ended := <-r.book.Ended()
	cancel()
	if err := <-done; err != nil || len(ended) != 2 || ended[0].Holder != (holders.Ref{Kind: holders.KindClaim, ID: "uid-1"}) {
		t.Errorf("to be released are %v, %v", ended, err)
	}
	p.err = nil
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := r.l.PrepareClaim(soon, request); err == nil || !strings.Contains(err.Error(), "not released") || len(p.calls) != 1 {
		t.Errorf("prepared before the release: %v", err)
	}
	next := make(chan error, 1)
	go func() {
		next <- r.l.PrepareClaim(t.Context(), request)
	}()
	r.book.Released(ended...)
	if err := <-next; err != nil {
		t.Errorf("the next attempt: %v", err)
	}
	r.full = true
	if err := r.l.PrepareClaim(t.Context(), request); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("a claim that is not stored: %v", err)
	}
}

// Verifies that a device is made only when those that cannot exist beside it have been released; that it does not
// wait for others; and that a device made for a claim which the book does not have is released for it.
func TestMadeDevicesAreReleasedFirst(t *testing.T) {
	r, p, devices := claimRig(t)
	slicesOf := func(of ...string) (all inventory.ByName[int64]) {
		for _, name := range of {
			all = append(all, inventory.NamedValue[int64]{Name: name, Value: 1})
		}
		return all
	}
	r.round.Snapshot.Backends[0].CounterSets = []inventory.CounterSet{{Name: "gpu-0", Counters: slicesOf("slice-0", "slice-1")}}
	for id, counters := range map[string]inventory.ByName[int64]{"a": slicesOf("slice-0", "slice-1"), "b": slicesOf("slice-0"), "c": slicesOf("slice-1")} {
		devices[id].Potential, devices[id].Consumes = true, []inventory.Consumption{{Set: "gpu-0", Counters: counters}}
	}
	devices["b"].Potential, devices["b"].MadeFor = false, "uid-lost"
	if diff := cmp.Diff(map[inventory.Key]string{devices["b"].Key: "uid-lost"}, r.l.Made()); diff != "" {
		t.Errorf("made are (-want +got):\n%s", diff)
	}
	if err := r.l.EndUnknownClaim("uid-lost", devices["b"].Key); err != nil {
		t.Fatal(err)
	}
	prepare := func(ctx context.Context, device string) error {
		return r.l.PrepareClaim(ctx, asked(theClaim, ClaimDevice{Device: devices[device], Request: "one"}))
	}
	if err := prepare(t.Context(), "c"); err != nil {
		t.Errorf("a device that can exist beside it: %v", err)
	}
	if err := r.l.EndClaim(theClaim.ID()); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := prepare(soon, "a"); err == nil || !strings.Contains(err.Error(), "mock/b was not released") || len(p.calls) != 1 {
		t.Errorf("made before the release: %v", err)
	}
	r.reopen(t) // the release is on disk
	r.l.opts.Backends = p
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 2)
	go func() { ran <- r.book.Run(ctx) }()
	go func() { ran <- r.l.Run(ctx) }()
	if err := prepare(t.Context(), "a"); err != nil {
		t.Errorf("after the release: %v", err)
	}
	stop()
	if err := errors.Join(<-ran, <-ran); err != nil {
		t.Error(err)
	}
}

// Verifies that the end of a claim is on disk only if the backend is to be called for it, for all that is
// known.
func TestEndOfAClaimIsStored(t *testing.T) {
	for name, tc := range map[string]struct {
		hooks  inventory.Hooks
		gone   bool
		stored bool
	}{
		"no call": {hooks: inventory.Hooks{Prepare: true}}, "a call": {hooks: inventory.Hooks{Release: true}, stored: true}, "not known": {gone: true, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, devices := claimRig(t)
			devices["a"].Hooks = tc.hooks
			if err := r.l.PrepareClaim(t.Context(), asked(theClaim, ClaimDevice{Device: devices["a"], Request: "one"})); err != nil {
				t.Fatal(err)
			}
			if tc.gone {
				r.round = roundOf()
			}
			if err := r.l.EndClaim(theClaim.ID()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(r.bookPath); (err == nil) != tc.stored {
				t.Errorf("the book's file: %v", err)
			}
		})
	}
}

// Verifies that after a restart a claim has its devices, with the definitions that its containers
// were started with, also where the devices have other edits now; and that its end removes them.
func TestRestoreClaim(t *testing.T) {
	r, _, devices := claimRig(t)
	request := asked(theClaim, ClaimDevice{Device: devices["a"], Request: "one"})
	if err := r.l.PrepareClaim(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var err error
	if r.store, err = cdi.Open(cdi.Options{Dir: t.TempDir()}); err != nil { // as after its directory was lost
		t.Fatal(err)
	}
	r.reopen(t)
	devices["a"].Edits = editsOf(map[string]string{"V": "other"})
	if err := r.l.RestoreDefinitions(r.book.Claims().Get(theClaim.Driver, theClaim.UID)); err != nil {
		t.Fatal(err)
	}
	was := request.Record.Devices[0]
	if !r.book.Held(devices["a"].Key) {
		t.Error("the device is not held")
	}
	if defined := r.store.Definitions(); len(defined) != 1 || defined[0].Name != was.CDI || !strings.Contains(string(was.Edits), defined[0].Edits.Env[0]) {
		t.Errorf("defined are %v, want %v", defined, was)
	}
	refused := asked(theClaim, ClaimDevice{Device: devices["b"], Request: "one"}).Record
	refused.Devices[0].Edits = json.RawMessage(`{"deviceNodes":[{"path":""}]}`)
	if err := r.l.RestoreDefinitions(refused); err == nil || len(r.store.Definitions()) != 1 {
		t.Errorf("a definition that runtimes refuse: %v", err)
	}
	if err := r.l.EndClaim(theClaim.ID()); err != nil {
		t.Fatal(err)
	}
	if r.book.Held(devices["a"].Key) {
		t.Error("the device of a claim that ended is held")
	}
}

package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// ClaimRequest is what a claim is to get of one driver.
type ClaimRequest struct {
	// Record is the claim as it is to be in the record, not prepared. PrepareClaim completes and stores it.
	Record *holders.ClaimRecord
	// Devices are at least one, each of them once.
	Devices []ClaimDevice
	// Limit is how long each backend may take; 0 for the usual limit, which is that of kubelet. With a limit, a
	// device whose preparation fails is unhealthy for a while.
	Limit time.Duration
}

// ClaimDevice is a device that a claim is to get.
type ClaimDevice struct {
	Device *inventory.Device
	// Request is the name of the request in the claim. Joined variables are those of all devices
	// of one request: a container may have one request of a claim, and must not get the IDs of
	// others. A container that has several requests of a claim gets each variable of the last one.
	Request string
	// Shared: it is a share of the device.
	Shared bool
	// Amounts are what the share has of each capacity with a request policy; nil if there is none.
	Amounts map[string]int64
	// Admin: the claim has admin access. The device is given to it as it is, with its AdminEdits, even
	// if another holder has it: it is neither taken nor prepared.
	Admin bool
	// Parameters are passed to Prepare: a JSON object that the backend's schema accepts, or nil.
	Parameters json.RawMessage
}

// TemporaryError is the error of a preparation that may work soon if it is tried again: a device is not free yet, the record
// cannot be written, or the backend does not run.
type TemporaryError struct{ Err error }

func (e TemporaryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e TemporaryError) Unwrap() error { return e.Err }

// temporary returns an error as a temporary one; nil for nil.
func temporary(err error) error {
	if err == nil {
		return nil
	}
	return TemporaryError{Err: err}
}

// PrepareClaim takes the devices for the claim, which the caller has locked, has the backend prepare those that ask for it, and
// writes their CDI definitions. The claim is in the record before a backend does anything for it, and is prepared there
// before its definitions are written, which can be written again from it. If it fails, what was prepared is released. It may
// be called again.
func (l *Lifecycle) PrepareClaim(ctx context.Context, r ClaimRequest) error {
	if err := l.opts.Book.TakeClaim(ctx, r.Record.Claim, l.claimedDevices(r)); err != nil {
		return temporary(err)
	}
	err := l.prepareTaken(ctx, r)
	if err == nil {
		return nil
	}
	_, again := errors.AsType[TemporaryError](err)
	again = again || errors.Is(err, supervisor.ErrNotRunning)
	if err = errors.Join(err, l.EndClaim(r.Record.ID())); again {
		return temporary(err)
	}
	return err
}

// prepareTaken prepares devices that the claim holds.
func (l *Lifecycle) prepareTaken(ctx context.Context, r ClaimRequest) error {
	claims := l.opts.Book.Claims()
	r.Record.Prepared = false
	if slices.ContainsFunc(r.Devices, func(d ClaimDevice) bool { return d.Device.Hooks.Prepare && !d.Admin }) {
		if err := claims.Put(r.Record); err != nil {
			return temporary(err)
		}
	} else {
		claims.Expect(r.Record) // after a crash nothing must be done for it
	}
	prepared, err := l.prepareDevices(ctx, r)
	if err != nil {
		return err
	}
	r.Devices = slices.Clone(r.Devices)
	for i, d := range r.Devices {
		if d.Device.Potential && !d.Admin { // the edits of a potential device are for admin access
			made := *d.Device
			made.Edits = inventory.Edits{}
			r.Devices[i].Device = &made
		}
	}
	all, devices := make([]cdi.HolderDefinition, len(r.Devices)), make([]inventory.Key, len(r.Devices))
	for i, d := range r.Devices {
		joined, err := joinedIn(r, d.Request, prepared)
		if err != nil {
			return fmt.Errorf("the variables of the devices of request %s: %w", d.Request, err)
		}
		further := prepared[d.Device.Key]
		if d.Admin {
			further = d.Device.AdminEdits
		}
		h := cdi.HolderDefinition{
			Name: cdi.ClaimName(d.Device.Key, string(r.Record.UID)), Device: d.Device.Key, Edits: []inventory.Edits{d.Device.Edits, further, joined},
		}
		if h.Content, err = h.Encode(); err != nil {
			return err
		}
		all[i], devices[i] = h, h.Device
		for j := range r.Record.Devices {
			if d := &r.Record.Devices[j]; d.Key() == h.Device {
				d.CDI, d.Edits = h.Name, json.RawMessage(h.Content)
			}
		}
	}
	r.Record.Prepared = true
	if err := claims.Put(r.Record); err != nil {
		return temporary(err)
	}
	return l.opts.Definitions.Define(all, l.liveDefinitions(devices...))
}

// RestoreDefinitions writes the definitions of a claim of the record again, where they are not as they were.
func (l *Lifecycle) RestoreDefinitions(c *holders.ClaimRecord) error {
	var all []cdi.HolderDefinition
	var keys []inventory.Key
	for _, d := range c.Devices {
		if slices.Contains(keys, d.Key()) { // a further share has the same definition
			continue
		}
		h := cdi.HolderDefinition{Name: d.CDI, Device: d.Key(), Content: string(d.Edits)}
		var err error
		if h.Content, err = h.Encode(); err != nil {
			return err
		}
		all, keys = append(all, h), append(keys, h.Device)
	}
	return l.opts.Definitions.Define(all, l.liveDefinitions(keys...))
}

// EndClaim ends what a driver serves of a claim, which the caller has locked. Its devices are released while Run runs, and no
// other holder gets one before that; see [holders.Claims.End]. The definitions for devices to which it had admin access are
// removed: it did not hold them, so no release does that.
func (l *Lifecycle) EndClaim(i holders.ClaimID) error {
	admin, err := l.opts.Book.Claims().End(i, l.callsBackend)
	if len(admin) > 0 {
		l.undefine(admin)
	}
	return err
}

// Made returns the devices that backends list as made for a claim, with its UID.
func (l *Lifecycle) Made() map[inventory.Key]string {
	made := map[inventory.Key]string{}
	for _, backend := range l.opts.Round().Backends() {
		for _, d := range backend.Devices {
			if d.MadeFor != "" {
				made[d.Key] = d.MadeFor
			}
		}
	}
	return made
}

// EndUnknownClaim has a device released that was made for a claim of which the record has nothing.
func (l *Lifecycle) EndUnknownClaim(uid string, device inventory.Key) error {
	l.opts.Book.EndUnknown(uid, device)
	return l.opts.Book.Store()
}

// callsBackend reports whether the backend is called when a holder of the device has ended, to release or
// to reset it, or may be: the device is not known.
func (l *Lifecycle) callsBackend(key inventory.Key) bool {
	v := l.opts.Round()
	device := v.Device(key)
	return device == nil || device.Hooks.Release || v.ResetsAfterUse(key)
}

// claimedDevices returns what the claim is to hold.
func (l *Lifecycle) claimedDevices(r ClaimRequest) (all []holders.ClaimedDevice) {
	v := l.opts.Round()
	for _, d := range r.Devices {
		if !d.Admin {
			all = append(all, holders.ClaimedDevice{
				Device: d.Device.Key, Shared: d.Shared, Amounts: d.Amounts, Capacities: d.Device.Capacities.Map(), Reset: v.ResetScope(d.Device), Excluded: excluded(v.Backend(d.Device.Backend), d.Device),
			})
		}
	}
	return all
}

// excluded returns the devices of the backend that cannot exist beside a potential device: their counter
// sets do not have enough for both.
func excluded(backend *inventory.Backend, d *inventory.Device) (all []inventory.Key) {
	if backend == nil || !d.Potential {
		return nil
	}
	for _, other := range backend.Devices {
		if other.ID != d.ID && other.IsOnDemand() && slices.ContainsFunc(backend.CounterSets, func(s inventory.CounterSet) bool { return exceeds(s, d, other) }) {
			all = append(all, other.Key)
		}
	}
	return all
}

// exceeds reports whether two devices together consume more of a counter of the set than there is.
func exceeds(s inventory.CounterSet, a, b *inventory.Device) bool {
	ofA, ofB := consumed(s, a), consumed(s, b)
	for name, amount := range s.Counters.All() {
		x, _ := ofA.Get(name)
		y, _ := ofB.Get(name)
		if x+y > amount {
			return true
		}
	}
	return false
}

// consumed returns what a device consumes of a set.
func consumed(s inventory.CounterSet, d *inventory.Device) inventory.ByName[int64] {
	if i := slices.IndexFunc(d.Consumes, func(c inventory.Consumption) bool { return c.Set == s.Name }); i >= 0 {
		return d.Consumes[i].Counters
	}
	return nil
}

// prepareDevices has the backend prepare the devices, those with the same parameters in one call,
// and returns the edits that it returned.
func (l *Lifecycle) prepareDevices(ctx context.Context, r ClaimRequest) (map[inventory.Key]inventory.Edits, error) {
	edits := map[inventory.Key]inventory.Edits{}
	left := slices.DeleteFunc(slices.Clone(r.Devices), func(d ClaimDevice) bool { return d.Admin || !d.Device.Hooks.Prepare })
	for len(left) > 0 {
		first := left[0]
		request := &backendv1.PrepareRequest{
			Resource: r.Record.Driver, Holder: holder(holders.Ref{Kind: holders.KindClaim, ID: string(r.Record.UID)}), ParametersJson: first.Parameters,
		}
		left = slices.DeleteFunc(left, func(d ClaimDevice) bool {
			same := d.Device.Backend == first.Device.Backend && string(d.Parameters) == string(first.Parameters)
			if same {
				request.Devices = append(request.Devices, &backendv1.HeldDevice{
					Id: d.Device.ID, Shared: l.opts.Book.HeldByOthers(d.Device.Key, string(r.Record.UID)), Capacities: d.Amounts,
				})
			}
			return same
		})
		slices.SortFunc(request.GetDevices(), func(a, b *backendv1.HeldDevice) int { return strings.Compare(a.GetId(), b.GetId()) })
		if err := l.prepareTogether(ctx, r, first.Device.Backend, request, edits); err != nil {
			return nil, err
		}
	}
	return edits, nil
}

// prepareTogether has a backend prepare devices of a claim by one call, and adds the edits that it returned.
func (l *Lifecycle) prepareTogether(ctx context.Context, r ClaimRequest, backend string, request *backendv1.PrepareRequest, edits map[inventory.Key]inventory.Edits) error {
	response, cause := l.callPrepare(ctx, backend, request, r.Limit)
	var err error
	if cause != nil {
		err = wrapPrepareError(backend, request, cause)
	}
	var devices []inventory.Key
	for _, id := range deviceIDs(request) {
		key := inventory.Key{Backend: backend, ID: id}
		devices = append(devices, key)
		if err != nil {
			continue
		}
		if edits[key], cause = l.parseEdits(key, "claim "+r.Record.String(), response.GetEdits()[id]); cause != nil {
			err = fmt.Errorf("device %s: %w", key, cause)
		}
	}
	if r.Limit != 0 && (err == nil || isOfDevices(ctx, cause)) && l.failed.note(devices, err) {
		l.opts.Changed()
	}
	return err
}

// joinedIn returns the joined variables of all devices of a request.
func joinedIn(r ClaimRequest, request string, prepared map[inventory.Key]inventory.Edits) (inventory.Edits, error) {
	var devices []*inventory.Device
	for _, d := range r.Devices {
		if d.Request == request {
			device := *d.Device
			device.Edits = overlay(device.Edits, prepared[device.Key])
			devices = append(devices, &device)
		}
	}
	slices.SortFunc(devices, func(a, b *inventory.Device) int { return a.Compare(b.Key) })
	env, err := inventory.JoinEnv(devices)
	return inventory.Edits{Env: inventory.Named(env)}, err
}

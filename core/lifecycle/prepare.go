package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// Prepare has the backends prepare the devices of a container that is about to start, and
// writes the CDI definition of what they returned for it. Devices that need no preparation
// only add their variables (see joinPrepared). If it fails, the container must not start; it
// may be called again.
func (l *Lifecycle) Prepare(ctx context.Context, r Request) error {
	parameters, err := l.parameters(ctx, r)
	if err != nil {
		err = fmt.Errorf("the parameters that the container gives for %s are not known: %w", r.Resource, err)
		l.log.Warn("a container does not start: its parameters are not known", "resource", r.Resource, "units", r.ids(), "error", err)
		return err
	}
	toPrepare := slices.DeleteFunc(slices.Clone(r.Units), func(u Unit) bool { return !needsPrepare(u) })
	starts, failed := l.opts.Book.Starting(r.Resource, l.bookUnits(toPrepare))
	_ = l.opts.Book.Store() // after a restart of the agent the backend must get the same holders; a problem if it fails
	answers, err := l.prepare(ctx, r.Resource, starts, parameters)
	if err == nil {
		err = l.define(r, starts, answers)
	}
	if err != nil {
		failed()
	}
	return err
}

// Unprepared reports whether each of the units belongs to a container none of whose devices
// had to be prepared.
func (l *Lifecycle) Unprepared(resource string, units []string) bool {
	return l.opts.Book.Unprepared(resource, units)
}

// prepare calls every backend that has some of the devices, for each of their holders. The
// result has the edits that were returned, by device, nil for none.
func (l *Lifecycle) prepare(ctx context.Context, resource string, starts []holders.Start, parameters map[string]string,
) (map[inventory.Key]*backendv1.ContainerEdits, error) {
	var errs []error
	answers := map[inventory.Key]*backendv1.ContainerEdits{}
	for _, start := range starts {
		requests := requestsFor(resource, start)
		for _, backend := range slices.Sorted(maps.Keys(requests)) {
			request := requests[backend]
			response, err := l.prepareOn(ctx, backend, request, parameters)
			if err != nil {
				err = wrapPrepareError(backend, request, err)
				l.log.Warn("a container does not start: its devices could not be prepared",
					"backend", backend, "resource", resource, "devices", deviceIDs(request), "error", err)
				errs = append(errs, err)
				continue
			}
			for _, id := range deviceIDs(request) {
				answers[inventory.Key{Backend: backend, ID: id}] = response.GetEdits()[id]
			}
		}
	}
	return answers, errors.Join(errs...)
}

// prepareOn calls one backend with the values of the resource's parameters.
func (l *Lifecycle) prepareOn(ctx context.Context, backend string, r *backendv1.PrepareRequest, parameters map[string]string,
) (*backendv1.PrepareResponse, error) {
	var err error
	if r.ParametersJson, err = parametersJSON(ctx, l.opts.Round().Description(backend), parameters); err != nil {
		return nil, err
	}
	return l.callPrepare(ctx, backend, r, 0)
}

// callPrepare calls one backend, when no other operation on the devices is in progress. limit 0 is the usual one.
func (l *Lifecycle) callPrepare(ctx context.Context, backend string, r *backendv1.PrepareRequest, limit time.Duration) (*backendv1.PrepareResponse, error) {
	devices := make([]inventory.Key, len(r.GetDevices()))
	for i, id := range deviceIDs(r) {
		devices[i] = inventory.Key{Backend: backend, ID: id}
	}
	end, err := l.opts.Book.BeginPrepare(ctx, devices)
	if err != nil {
		return nil, err
	}
	if err := l.leftovers(ctx, backend, r); err != nil {
		end()
		return nil, err
	}
	return l.opts.Backends.Prepare(ctx, backend, r, limit, end)
}

// requestsFor returns the requests for one holder, by backend.
func requestsFor(resource string, start holders.Start) map[string]*backendv1.PrepareRequest {
	requests := map[string]*backendv1.PrepareRequest{}
	for _, device := range start.Devices {
		r := requests[device.Device.Backend]
		if r == nil {
			r = &backendv1.PrepareRequest{Resource: resource, Holder: holder(start.Holder)}
			requests[device.Device.Backend] = r
		}
		r.Devices = append(r.Devices, &backendv1.HeldDevice{Id: device.Device.ID, Shared: device.Shared})
	}
	for _, r := range requests {
		slices.SortFunc(r.GetDevices(), func(a, b *backendv1.HeldDevice) int { return strings.Compare(a.GetId(), b.GetId()) })
	}
	return requests
}

var kinds = map[holders.Kind]backendv1.HolderKind{
	holders.KindContainer: backendv1.HolderKind_HOLDER_KIND_CONTAINER, holders.KindClaim: backendv1.HolderKind_HOLDER_KIND_CLAIM,
}

// holder names a holder to a backend.
func holder(ref holders.Ref) *backendv1.Holder {
	return &backendv1.Holder{Id: ref.ID, Kind: kinds[ref.Kind]}
}

func deviceIDs(r *backendv1.PrepareRequest) []string {
	ids := make([]string, len(r.GetDevices()))
	for i, d := range r.GetDevices() {
		ids[i] = d.GetId()
	}
	return ids
}

// wrapPrepareError names backend, devices and resource, with the backend's message if there is
// one.
func wrapPrepareError(backend string, r *backendv1.PrepareRequest, err error) error {
	var call *supervisor.CallError
	if errors.As(err, &call) && call.Message != "" && !errors.Is(err, supervisor.ErrNotRunning) {
		return fmt.Errorf("backend %s could not prepare %v for %s: %s", backend, deviceIDs(r), r.GetResource(), call.Message)
	}
	return fmt.Errorf("backend %s could not prepare %v for %s: %w", backend, deviceIDs(r), r.GetResource(), err)
}

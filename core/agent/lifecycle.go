package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/cdi"
	"github.com/accelmux/accelmux/core/deviceplugin"
	"github.com/accelmux/accelmux/core/holders"
	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/resource"
	"github.com/accelmux/accelmux/core/supervisor"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// lifecycle is what kubelet's calls make the agent do. It implements
// deviceplugin.Lifecycle; its methods are called concurrently.
type lifecycle struct{ agent *Agent }

// Allocate notes the holders before kubelet gets its answer, in memory only. It
// waits for a release of one of the devices, and refuses one that is being reset.
// What Prepare will return for the container has a CDI name of its own.
func (l lifecycle) Allocate(ctx context.Context, name string, units []resource.Unit) (own string, err error) {
	err = l.agent.book.Take(ctx, name, bookUnits(units))
	if slices.ContainsFunc(units, func(u resource.Unit) bool { return u.Device.Hooks.Prepare }) {
		ids := make([]string, len(units))
		for i, unit := range units {
			ids[i] = unit.ID
		}
		own = cdi.HolderName(firstDevice(units).Backend, name, ids)
	}
	return own, err
}

// Abandon takes the holders back: kubelet was refused after all.
func (l lifecycle) Abandon(name string, units []resource.Unit) {
	l.agent.book.Return(name, bookUnits(units))
}

func bookUnits(units []resource.Unit) []holders.Unit {
	all := make([]holders.Unit, len(units))
	for i, unit := range units {
		all[i] = holders.Unit{ID: unit.ID, Device: unit.Device.Key, Prepared: unit.Device.Hooks.Prepare}
	}
	return all
}

// Prepare has the devices' backends ready them for a container that is about to
// start, and puts the edits that are known only then where the runtime looks.
func (l lifecycle) Prepare(ctx context.Context, name string, starting deviceplugin.Starting) error {
	ids := make([]string, 0, len(starting.IDs))
	for _, unit := range slices.Concat(starting.Units, starting.Others) {
		ids = append(ids, unit.ID)
	}
	parameters, err := l.agent.parameters(ctx, name, ids)
	if err != nil {
		err = fmt.Errorf("what the container asks of %s is not known: %w", name, err)
		l.agent.log.Warn("a container does not start: its parameters are not known", "resource", name, "devices", ids, "error", err)
		return err
	}
	starts, failed := l.agent.book.Starting(name, bookUnits(starting.Units))
	l.agent.book.Store() // the backend must hear of the same holders after a restart of the agent
	answers, err := l.prepare(ctx, name, starts, parameters)
	if err == nil {
		err = l.define(name, starting, starts, answers)
	}
	if err != nil {
		failed()
	}
	return err
}

// prepare asks every backend that has some of the devices, for each of their holders,
// and returns the edits that were answered, by device; a device has an entry if its
// backend answered.
func (l lifecycle) prepare(ctx context.Context, name string, starts []holders.Start, parameters map[string]string,
) (map[inventory.Key]*backendv1.ContainerEdits, error) {
	var errs []error
	answers := map[inventory.Key]*backendv1.ContainerEdits{}
	for _, start := range starts {
		requests := requestsFor(name, start)
		for _, backend := range slices.Sorted(maps.Keys(requests)) {
			r := requests[backend]
			var response *backendv1.PrepareResponse
			var err error
			if r.ParametersJson, err = parametersJSON(l.agent.view.Load().Description(backend).Parameters, parameters); err == nil {
				response, err = l.call(ctx, backend, r)
			}
			if err != nil {
				err = prepareError(backend, deviceIDs(r.GetDevices()), name, err)
				l.agent.log.Warn("a container does not start: its devices could not be prepared",
					"backend", backend, "resource", name, "devices", deviceIDs(r.GetDevices()), "error", err)
				errs = append(errs, err)
				continue
			}
			for _, device := range r.GetDevices() {
				answers[inventory.Key{Backend: backend, ID: device.GetId()}] = response.GetEdits()[device.GetId()]
			}
		}
	}
	return answers, errors.Join(errs...)
}

// call waits until no other operation on the devices is in progress, and asks the backend.
func (l lifecycle) call(ctx context.Context, backend string, r *backendv1.PrepareRequest) (*backendv1.PrepareResponse, error) {
	devices := make([]inventory.Key, len(r.GetDevices()))
	for i, d := range r.GetDevices() {
		devices[i] = inventory.Key{Backend: backend, ID: d.GetId()}
	}
	end, err := l.agent.book.BeginPrepare(ctx, devices)
	if err != nil {
		return nil, err
	}
	return l.agent.supervisor.Prepare(ctx, backend, r, end)
}

// requestsFor are the requests for one holder, by backend.
func requestsFor(name string, start holders.Start) map[string]*backendv1.PrepareRequest {
	requests := map[string]*backendv1.PrepareRequest{}
	for _, device := range start.Devices {
		r := requests[device.Key.Backend]
		if r == nil {
			r = &backendv1.PrepareRequest{Resource: name, Holder: containerHolder(start.Holder)}
			requests[device.Key.Backend] = r
		}
		r.Devices = append(r.Devices, &backendv1.HeldDevice{Id: device.Key.ID, Shared: device.Shared})
	}
	for _, r := range requests {
		slices.SortFunc(r.GetDevices(), func(a, b *backendv1.HeldDevice) int { return strings.Compare(a.GetId(), b.GetId()) })
	}
	return requests
}

// containerHolder is a holder by the device plugin API.
func containerHolder(id string) *backendv1.Holder {
	return &backendv1.Holder{Id: id, Kind: backendv1.HolderKind_HOLDER_KIND_CONTAINER}
}

func deviceIDs(devices []*backendv1.HeldDevice) []string {
	ids := make([]string, len(devices))
	for i, d := range devices {
		ids[i] = d.GetId()
	}
	return ids
}

// prepareError says what failed, once, and in the backend's own words.
func prepareError(backend string, devices []string, name string, err error) error {
	var call *supervisor.CallError
	if errors.As(err, &call) && call.Message != "" {
		return fmt.Errorf("backend %s could not prepare %v for %s: %s", backend, devices, name, call.Message)
	}
	return fmt.Errorf("backend %s could not prepare %v for %s: %w", backend, devices, name, err)
}

// resolve finds the device behind a unit that kubelet says is in use.
func (a *Agent) resolve(name, unitID string) (inventory.Key, bool) {
	unit := a.view.Load().Unit(name, unitID)
	if unit == nil {
		return inventory.Key{}, false
	}
	return unit.Device.Key, true
}

package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/accelmux/accelmux/core/lifecycle"
)

// confirmAfter, in units of Timing.MinInterval, is the time after which the first list of a
// successor is sent again: kubelet uses the list that arrives last, which may be the last one
// of the predecessor.
const confirmAfter = 10

// GetDevicePluginOptions returns which optional calls kubelet should make. Kubelet calls it
// once per connection.
func (in *instance) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	if err := in.refuseIfSuperseded(); err != nil {
		return nil, err
	}
	return in.options, nil
}

// ListAndWatch sends the list immediately, and again when it differs for kubelet.
func (in *instance) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	handover := in.advert.streamOpened(in)
	defer in.advert.streamClosed(in)
	if err := in.sendLists(stream, handover); err != nil {
		return err
	}
	// A successor serves the resource. The stream stays open until kubelet closes it.
	select {
	case <-in.stop:
		return in.ended()
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func (in *instance) ended() error {
	return status.Errorf(codes.Unavailable, "the agent no longer serves resource %s on this socket", in.advert.name)
}

// sendLists sends every list until the stream ends. It returns nil when the instance is
// superseded.
func (in *instance) sendLists(stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse], handover bool) error {
	var sent *pluginapi.ListAndWatchResponse
	var sentAt, confirmAt time.Time
	_, repeated, _ := in.advert.viewAndChange()
	timer := time.NewTimer(never)
	defer timer.Stop()
	for {
		if in.refuseIfSuperseded() != nil {
			return nil
		}
		v, repeats, changed := in.advert.viewAndChange()
		wait := in.pace(sent, v.list, sentAt)
		if wait == never {
			sent = v.list // equal; the older one can be collected
		}
		if repeats != repeated {
			wait = min(wait, in.advert.timing.MinInterval-time.Since(sentAt))
		}
		if !confirmAt.IsZero() {
			wait = min(wait, time.Until(confirmAt))
		}
		if wait <= 0 {
			if err := stream.Send(v.list); err != nil {
				return err
			}
			sent, sentAt, repeated = v.list, time.Now(), repeats
			switch {
			case handover:
				confirmAt, handover = sentAt.Add(confirmAfter*in.advert.timing.MinInterval), false
			case sentAt.After(confirmAt):
				confirmAt = time.Time{}
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-changed:
		case <-timer.C:
		case <-in.superseded:
		case <-in.stop:
			return in.ended()
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// pace returns how long to wait before the next list is sent; never if it equals the one that
// was sent.
func (in *instance) pace(sent, next *pluginapi.ListAndWatchResponse, sentAt time.Time) time.Duration {
	if sentAt.IsZero() {
		return 0
	}
	if sameList(sent, next) {
		return never
	}
	interval := in.advert.timing.MinInterval
	if takesAway(sent, next) {
		interval /= 5
	}
	return interval - time.Since(sentAt)
}

// Allocate returns what a container gets. Kubelet stores the answer and does not call Allocate
// again for this container.
func (in *instance) Allocate(ctx context.Context, r *pluginapi.AllocateRequest) (_ *pluginapi.AllocateResponse, err error) {
	v := in.advert.view()
	picked, err := v.pickAll(r)
	if err != nil {
		return nil, err
	}
	life, own := in.advert.plugin.opts.Lifecycle, make([]string, 0, len(picked))
	defer func() {
		for _, units := range picked[:len(own)] {
			if err != nil {
				life.Return(in.request(units))
			}
		}
	}()
	for _, units := range picked {
		name, err := life.Take(ctx, in.request(units))
		if err != nil {
			return nil, refusal(codes.Unavailable, err, "allocate %s of resource %s", ids(units), in.advert.name)
		}
		own = append(own, name)
	}
	// The devices are allocated now, so their CDI names are not removed any more. A newer view
	// may have other names than v.
	given := picked
	if now := in.advert.view(); now != v {
		if given, err = now.pickAll(r); err != nil {
			return nil, err
		}
		v = now
	}
	return in.answer(v, given, own)
}

// answer returns what the containers get by the view. own has the CDI names of the edits for
// each container alone.
func (in *instance) answer(v *view, containers [][]*unit, own []string) (*pluginapi.AllocateResponse, error) {
	response := &pluginapi.AllocateResponse{ContainerResponses: make([]*pluginapi.ContainerAllocateResponse, 0, len(containers))}
	onHost := in.advert.plugin.opts.OnHost()
	for i, units := range containers {
		answer, conflicts, err := inject(v, units, own[i], onHost)
		if err != nil {
			return nil, refusal(codes.Internal, err, "inject %s of resource %s", ids(units), v.name)
		}
		for _, conflict := range conflicts {
			in.advert.log.Warn("devices of one container disagree", "conflict", conflict)
		}
		response.ContainerResponses = append(response.ContainerResponses, answer)
	}
	return response, nil
}

// pickAll returns the units of each container, or an error if two of them ask for the same
// unit.
func (v *view) pickAll(r *pluginapi.AllocateRequest) ([][]*unit, error) {
	if err := v.checkContainers(len(r.GetContainerRequests())); err != nil {
		return nil, err
	}
	picked := make([][]*unit, len(r.GetContainerRequests()))
	var taken map[string]struct{} // not needed for kubelet's calls, which have one container
	if len(picked) > 1 {
		taken = map[string]struct{}{}
	}
	for i, c := range r.GetContainerRequests() {
		units, err := v.pick(c.GetDevicesIds())
		if err != nil {
			return nil, err
		}
		for _, u := range units {
			if _, twice := taken[u.ID]; twice {
				return nil, status.Errorf(codes.InvalidArgument,
					"resource %s: device %q is asked for by two containers in one call: kubelet gives a device to one container at a time; this is a bug of the caller",
					v.name, u.ID)
			}
			if taken != nil {
				taken[u.ID] = struct{}{}
			}
		}
		picked[i] = units
	}
	return picked, nil
}

// maxContainers bounds the containers in one call. Kubelet's calls have one.
const maxContainers = 64

func (v *view) checkContainers(n int) error {
	if n <= maxContainers {
		return nil
	}
	return status.Errorf(codes.InvalidArgument, "resource %s: the call has %d containers, and may have %d: kubelet makes one call for each",
		v.name, n, maxContainers)
}

// pick returns the units with these IDs, each once, sorted by ID.
func (v *view) pick(wanted []string) ([]*unit, error) {
	sorted := distinct(wanted)
	if v.maxReplicas > 0 && len(sorted) > v.maxReplicas {
		return nil, status.Errorf(codes.InvalidArgument,
			"resource %s: the container asks for %d replicas of shared devices, but may have %d (maxReplicasPerContainer): "+
				"ask for fewer in the pod, or raise maxReplicasPerContainer of the resource in the node configuration",
			v.name, len(sorted), v.maxReplicas)
	}
	units := make([]*unit, 0, len(sorted))
	for _, id := range sorted {
		u, ok := v.unit(id)
		if !ok {
			return nil, status.Errorf(codes.NotFound,
				"resource %s has no device %q (any more): create the pod again, so that it gets another one", v.name, shown(id))
		}
		if !u.healthy && !u.resetting {
			return nil, status.Errorf(codes.FailedPrecondition,
				"resource %s: device %q cannot be allocated, %s: create the pod again, so that it gets another one, and see `accelmux devices`",
				v.name, id, u.why)
		}
		units = append(units, u)
	}
	return units, nil
}

// GetPreferredAllocation does not fail for unknown or unhealthy devices, nor if there are too
// few: the answer is shorter, and kubelet chooses the rest.
func (in *instance) GetPreferredAllocation(_ context.Context, r *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	v := in.advert.view()
	if err := v.checkContainers(len(r.GetContainerRequests())); err != nil {
		return nil, err
	}
	response := &pluginapi.PreferredAllocationResponse{}
	for _, c := range r.GetContainerRequests() {
		response.ContainerResponses = append(response.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{
			DeviceIDs: in.advert.prefer(v, c),
		})
	}
	return response, nil
}

// PreStartContainer prepares devices that have a Prepare hook. Kubelet calls it before every
// start of a container, also for units that are unhealthy or removed: a container whose
// devices have no hook starts in any case.
func (in *instance) PreStartContainer(ctx context.Context, r *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	v := in.advert.view()
	var known, hooked []*unit
	var unknown []string
	for _, id := range distinct(r.GetDevicesIds()) {
		u, ok := v.unit(id)
		if !ok {
			unknown = append(unknown, id)
			continue
		}
		known = append(known, u)
		if u.Device.Hooks.Prepare {
			hooked = append(hooked, u)
		}
	}
	if len(unknown) > 0 && !in.advert.plugin.opts.Lifecycle.Unprepared(v.name, unknown) {
		return nil, status.Errorf(codes.NotFound,
			"resource %s: device %q must be prepared before the container starts, but is no longer known: "+
				"bring it back, or delete the pod so that it gets another one", v.name, shown(unknown[0]))
	}
	if len(hooked) > 0 {
		request := in.request(known)
		request.Unknown = unknown
		if err := in.advert.plugin.opts.Lifecycle.Prepare(ctx, request); err != nil {
			return nil, refusal(codes.Unavailable, err, "prepare %s of resource %s", ids(hooked), in.advert.name)
		}
	}
	return &pluginapi.PreStartContainerResponse{}, nil
}

// request returns the request for the units of one container.
func (in *instance) request(units []*unit) lifecycle.Request {
	r := lifecycle.Request{Resource: in.advert.name, Units: make([]lifecycle.Unit, len(units))}
	for i, u := range units {
		r.Units[i] = lifecycle.Unit{ID: u.ID, Device: u.Device}
	}
	return r
}

// distinct returns the IDs, each once, sorted.
func distinct(ids []string) []string {
	sorted := slices.Clone(ids)
	slices.Sort(sorted)
	return slices.Compact(sorted)
}

// maxShown bounds an unknown ID in an error, in bytes; maxIDs bounds the units that an error
// names. Kubelet copies the error into the pod's status.
const (
	maxShown = 128
	maxIDs   = 16
)

func shown(id string) string {
	if len(id) <= maxShown {
		return id
	}
	return strings.ToValidUTF8(id[:maxShown], "") + "…"
}

func ids(units []*unit) []string {
	out := make([]string, 0, min(len(units), maxIDs)+1)
	for i, u := range units {
		if i == maxIDs {
			return append(out, fmt.Sprintf("and %d more", len(units)-i))
		}
		out = append(out, u.ID)
	}
	return out
}

// refusal returns err with a gRPC status, as kubelet shows it in the pod's status. A status
// that err carries keeps its code.
func refusal(code codes.Code, err error, format string, args ...any) error {
	message := err.Error()
	switch s, ok := status.FromError(err); {
	case ok:
		code, message = s.Code(), s.Message()
	case errors.Is(err, context.DeadlineExceeded):
		code = codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	}
	return status.Errorf(code, "%s: %s", fmt.Sprintf(format, args...), message)
}

package lifecycle

import (
	"context"
	"errors"
	"fmt"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/openfiles"
	"github.com/accelmux/accelmux/core/round"
	"github.com/accelmux/accelmux/core/text"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// unused returns an error unless it is known that no process has one of the devices open that a reset reaches. It is nil where
// the backend's driver knows that.
func (l *Lifecycle) unused(ctx context.Context, v *round.Round, backend string, reached []inventory.Key) error {
	if !v.Description(backend).Look.Reset {
		return nil
	}
	ids := make([]string, len(reached))
	for i, key := range reached {
		ids[i] = key.ID
	}
	nodes, found, err := l.users(ctx, v, backend, ids)
	switch {
	case err == nil && len(nodes) == 0: // all are potential, and hardware is reset of which they would be made
		err = errors.New("none of them has a device node")
		fallthrough
	case err != nil:
		return fmt.Errorf("no reset, as it is not known whether a process uses the devices: %w", err)
	case len(found) > 0:
		return fmt.Errorf("no reset while processes have %s open: %s; end them, and the reset is tried again", pathsOf(nodes), found)
	}
	return nil
}

// leftovers does what the configuration wants about processes that have devices open before these are prepared for a container.
// Processes of a device that another container holds, too, are taken to be that one's.
func (l *Lifecycle) leftovers(ctx context.Context, backend string, r *backendv1.PrepareRequest) error {
	v := l.opts.Round()
	look := v.Description(backend).Look
	var ids []string
	for _, d := range r.GetDevices() {
		if !d.GetShared() {
			ids = append(ids, d.GetId())
		}
	}
	if !look.Report && !look.Fail || len(ids) == 0 {
		return nil
	}
	nodes, found, err := l.users(ctx, v, backend, ids)
	log := l.log.With("backend", backend, "devices", ids, "resource", r.GetResource())
	switch {
	case err != nil && look.Fail:
		return fmt.Errorf("whether processes of an earlier container still use it is not known: %w", err)
	case err != nil:
		log.Warn("whether processes were left behind is not known", "error", err)
	case len(found) > 0 && look.Fail:
		return fmt.Errorf("processes that are not the container's still have %s open: %s; end them", pathsOf(nodes), found)
	case len(found) > 0:
		log.Warn("processes use the device before its container starts", "processes", found.String())
	}
	return nil
}

// users returns the processes that have one of the devices' own nodes open. It is an error if an existing one has no node of its
// own: its users are not known.
func (l *Lifecycle) users(ctx context.Context, v *round.Round, backend string, ids []string) ([]inventory.DeviceNode, openfiles.Processes, error) {
	of := v.Backend(backend)
	if of == nil {
		return nil, nil, fmt.Errorf("backend %s has no inventory", backend)
	}
	nodes, without := of.OwnNodes(ids...)
	if len(without) > 0 {
		return nil, nil, fmt.Errorf("device %s has no device node of its own", without[0])
	}
	if len(nodes) == 0 {
		return nil, nil, nil
	}
	found, err := l.opts.Backends.Users(ctx, backend, nodes)
	return nodes, found, err
}

func pathsOf(nodes []inventory.DeviceNode) string {
	const most = 8
	var paths []string
	for _, n := range nodes {
		paths = append(paths, n.HostPath)
	}
	return text.First(paths, most)
}

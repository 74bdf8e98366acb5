package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/accelmux/accelmux/core/inventory"
	"github.com/accelmux/accelmux/core/plug"
	"github.com/accelmux/accelmux/core/sandbox"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

const (
	// exercised bounds the devices that Prepare and Release are called for.
	exercised = 4
	// resourceName is PrepareRequest.resource.
	resourceName = "check.accelmux.io/device"
	// unknownID is the ID of a device that no backend has.
	unknownID = "accelmux-check-backend"
	// maxMessage bounds the message of a result, in bytes.
	maxMessage = 1024
	// tooShort is a deadline that every call exceeds, unless it does nothing.
	tooShort = time.Millisecond
)

// holder is used in all calls but one; otherHolder holds no device.
var (
	holder      = &backendv1.Holder{Id: "check-backend-1", Kind: backendv1.HolderKind_HOLDER_KIND_CLAIM}
	otherHolder = &backendv1.Holder{Id: "check-backend-2", Kind: backendv1.HolderKind_HOLDER_KIND_CLAIM}
)

// hooks checks Prepare, Release and Reset.
func (c *check) hooks(ctx context.Context, s *session, w *stream) {
	all := []string{
		prepareIdempotent, prepareEdits, prepareCancelled, releaseResults, releaseUnknown, resetResults,
	}
	if !c.Exercise {
		c.skip("it could disturb containers that use the devices: run with --exercise", all...)
		return
	}
	now, _ := w.newest()
	healthy := slices.DeleteFunc(slices.Clone(now.GetDevices()), func(d *backendv1.Device) bool {
		return d.GetHealth().GetState() != backendv1.HealthState_HEALTH_STATE_HEALTHY
	})
	tried := 0
	for _, d := range healthy {
		if tried < exercised && (hasHook(d, backendv1.Hook_HOOK_PREPARE) || hasHook(d, backendv1.Hook_HOOK_RELEASE)) {
			c.prepares(ctx, s, w, d, tried == 0)
			c.releases(ctx, s, w, d)
			tried++
		}
	}
	if tried == 0 {
		c.skip("no healthy device has a hook", all[:4]...)
	}
	if c.described.Release {
		c.judge(releaseUnknown, s.release(ctx, c.timing.Prepare, otherHolder, unknownID))
	} else {
		c.skip("the manifest does not have the ability release", releaseUnknown)
	}
	c.resets(ctx, s, healthy)
}

// held returns a device for a holder, with the default amount of each capacity that has a
// policy.
func held(d *backendv1.Device) *backendv1.HeldDevice {
	h := &backendv1.HeldDevice{Id: d.GetId()}
	for name, policy := range d.GetRequestPolicies() {
		if h.Capacities == nil {
			h.Capacities = map[string]int64{}
		}
		h.Capacities[name] = policy.GetDefault()
	}
	return h
}

// prepare calls Prepare for one device.
func (s *session) prepare(ctx context.Context, limit time.Duration, d *backendv1.Device) (*backendv1.PrepareResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request := &backendv1.PrepareRequest{Resource: resourceName, Holder: holder, Devices: []*backendv1.HeldDevice{held(d)}}
	return s.service.Prepare(ctx, request)
}

// slowPrepareLimit is the deadline of Prepare for a device that is slow to prepare.
const slowPrepareLimit = 9 * time.Minute

// prepares checks Prepare with one device; once also checks the rules that need one device only.
func (c *check) prepares(ctx context.Context, s *session, w *stream, d *backendv1.Device, once bool) {
	if !hasHook(d, backendv1.Hook_HOOK_PREPARE) {
		c.skip("no healthy device has HOOK_PREPARE", prepareIdempotent, prepareEdits, prepareCancelled)
		return
	}
	limit := c.timing.Prepare
	if d.GetSlowToPrepare() {
		limit = max(limit, slowPrepareLimit)
	}
	if once {
		_, _ = s.prepare(ctx, tooShort, d)
		select {
		case <-time.After(c.timing.Abandon):
		case <-ctx.Done():
			return
		}
	}
	first, err := s.prepare(ctx, limit, d)
	if err != nil {
		err = fmt.Errorf("device %s: %w", d.GetId(), s.failed("Prepare", limit, err))
		if once {
			c.fail(prepareCancelled, "after a call with a deadline of %s: %s", tooShort, err)
		}
		c.fail(prepareIdempotent, "%s", err)
		return
	}
	c.pass(prepareCancelled)
	c.judge(prepareEdits, c.checkPrepared(d, first))
	again, err := s.prepare(ctx, limit, d)
	switch {
	case err != nil:
		c.fail(prepareIdempotent, "device %s, the second time: %s", d.GetId(), s.failed("Prepare", limit, err))
	case !proto.Equal(first, again):
		c.fail(prepareIdempotent, "device %s: the second call returns another answer than the first", d.GetId())
	default:
		c.pass(prepareIdempotent)
	}
	if d.GetPotential() && !c.awaitMade(ctx, w, d.GetId(), holder.GetId()) {
		c.fail(prepareEdits, "the potential device %s was not listed as existing, with made_for %q, within %s after Prepare", d.GetId(), holder.GetId(), c.timing.Inventory)
	}
}

// checkPrepared checks the answer of Prepare for a device.
func (c *check) checkPrepared(d *backendv1.Device, answer *backendv1.PrepareResponse) error {
	for id, edits := range answer.GetEdits() {
		if id != d.GetId() {
			return fmt.Errorf("device %s: Prepare returned edits of %q, which the request does not have", d.GetId(), id)
		}
		c.listing.Lock()
		c.use(edits)
		c.listing.Unlock()
		if _, _, err := inventory.ParseEdits(c.policy(c.described.Edits), edits); err != nil {
			return fmt.Errorf("device %s: %s", d.GetId(), c.refusal(c.described.Edits, edits))
		}
	}
	return nil
}

// awaitMade waits until a device is listed as made for a holder, or as potential if that is "", and
// reports whether it was within the limit.
func (c *check) awaitMade(ctx context.Context, w *stream, id, holder string) bool {
	return w.await(ctx, c.timing.Inventory, func() bool {
		return slices.ContainsFunc(w.last.GetDevices(), func(d *backendv1.Device) bool {
			return d.GetId() == id && d.GetPotential() == (holder == "") && d.GetMadeFor() == holder
		})
	})
}

// release calls Release for one device, and checks the answer.
func (s *session) release(ctx context.Context, limit time.Duration, holder *backendv1.Holder, id string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := s.service.Release(ctx, &backendv1.ReleaseRequest{Holder: holder, Devices: []*backendv1.HeldDevice{{Id: id}}})
	if err != nil {
		return fmt.Errorf("device %s: %w", id, s.failed("Release", limit, err))
	}
	for _, result := range answer.GetResults() {
		switch {
		case result.GetDeviceId() != id:
			return fmt.Errorf("device %s: Release answers for %q, which the request does not have", id, result.GetDeviceId())
		case len(result.GetMessage()) > maxMessage:
			return fmt.Errorf("device %s: the message has %d bytes; at most %d are allowed", id, len(result.GetMessage()), maxMessage)
		case !result.GetReleased():
			return fmt.Errorf("device %s was not released: %s", id, result.GetMessage())
		}
	}
	if n := len(answer.GetResults()); n != 1 {
		return fmt.Errorf("device %s: Release returns %d results, not 1", id, n)
	}
	return nil
}

// releases checks two calls of Release for a prepared device.
func (c *check) releases(ctx context.Context, s *session, w *stream, d *backendv1.Device) {
	if !hasHook(d, backendv1.Hook_HOOK_RELEASE) {
		c.skip("no healthy device has HOOK_RELEASE", releaseResults)
		return
	}
	for range 2 {
		c.judge(releaseResults, s.release(ctx, c.timing.Prepare, holder, d.GetId()))
	}
	if d.GetPotential() && !c.awaitMade(ctx, w, d.GetId(), "") {
		c.fail(releaseResults, "the device %s was not potential again within %s after Release", d.GetId(), c.timing.Inventory)
	}
}

// resets checks Reset with one device, or with all devices of its reset group.
func (c *check) resets(ctx context.Context, s *session, healthy []*backendv1.Device) {
	switch {
	case !c.described.Reset:
		c.skip("the manifest does not have the ability reset", resetResults)
		return
	case len(healthy) == 0:
		c.skip("no device is healthy", resetResults)
		return
	}
	var group []string
	for _, d := range healthy {
		if d == healthy[0] || d.GetResetGroup() != "" && d.GetResetGroup() == healthy[0].GetResetGroup() {
			group = append(group, d.GetId())
		}
	}
	if err := c.unused(ctx, healthy, group); err != nil {
		c.skip("devices "+words(group)+" are not reset: "+err.Error(), resetResults)
		return
	}
	answer, err := s.reset(ctx, c.timing.Reset, group)
	if err != nil {
		c.fail(resetResults, "devices %s: %s", words(group), err)
		return
	}
	var results, failed []string
	messages := map[string]string{}
	for _, result := range answer {
		results = append(results, result.GetDeviceId())
		if !result.GetRecovered() {
			failed = append(failed, result.GetDeviceId()+": "+result.GetMessage())
			messages[result.GetDeviceId()] = result.GetMessage()
		}
		if n := len(result.GetMessage()); n > maxMessage {
			c.fail(resetResults, "device %s: the message has %d bytes; at most %d are allowed", result.GetDeviceId(), n, maxMessage)
		}
	}
	slices.Sort(results)
	slices.Sort(group)
	if !slices.Equal(results, group) {
		answered := "no device"
		if len(results) > 0 {
			answered = words(results)
		}
		c.fail(resetResults, "Reset of %s answers for %s", words(group), answered)
		return
	}
	c.pass(resetResults)
	if len(failed) > 0 {
		c.remark(resetResults, "it did not recover "+words(failed))
		c.resetGroup, c.unrecovered = group, messages
	}
}

// unused returns an error if a process has one of the devices open, as far as the agent looks for that before a reset.
func (c *check) unused(ctx context.Context, all []*backendv1.Device, group []string) error {
	if !c.described.Look.Reset {
		return nil
	}
	backend := &inventory.Backend{}
	for _, d := range all {
		edits, _, err := inventory.ParseEdits(inventory.Policy{AcceptDeclared: true}.With(c.described), d.GetEdits())
		if err != nil {
			return err
		}
		backend.Devices = append(backend.Devices, &inventory.Device{Key: inventory.Key{ID: d.GetId()}, Parent: d.GetParentId(), Potential: d.GetPotential(), Edits: edits})
	}
	nodes, without := backend.OwnNodes(group...)
	switch {
	case len(without) > 0:
		return fmt.Errorf("%s has no device node of its own", words(without))
	case len(nodes) == 0:
		return errors.New("none of them has a device node")
	}
	found, err := plug.UsersOf(ctx, c.HostPaths.host().Host, nodes)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("in use by %s", found)
	}
	return err
}

// reset calls Reset for devices of one reset group.
func (s *session) reset(ctx context.Context, limit time.Duration, ids []string) ([]*backendv1.ResetResult, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := s.service.Reset(ctx, &backendv1.ResetRequest{DeviceIds: ids})
	if err != nil {
		return nil, s.failed("Reset", limit, err)
	}
	return answer.GetResults(), nil
}

// resetsFreely resets without a sandbox what was not reset in it: if that works, the manifest is to blame.
func (c *check) resetsFreely(ctx context.Context) error {
	if len(c.unrecovered) == 0 || c.Sandbox == sandbox.Off {
		return nil
	}
	s, _, stop, err := c.outside(ctx)
	if err != nil {
		return c.again(err)
	}
	defer stop()
	answer, err := s.reset(ctx, c.timing.Reset, c.resetGroup)
	if err != nil {
		return nil // Reset does not work without a sandbox either
	}
	for _, result := range answer {
		id := result.GetDeviceId()
		if message, was := c.unrecovered[id]; was && result.GetRecovered() {
			c.insufficient(fmt.Sprintf("Reset of the device %s fails: %s", id, message))
		}
	}
	return nil
}

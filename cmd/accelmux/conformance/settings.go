package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// unreadable are settings that no backend can decode: the schema, which the core applies before, says what fields there are.
const unreadable = `["accelmux_check_backend"]`

// maxFieldErrors bounds the field errors of a refusal.
const maxFieldErrors = 64

// reconfigures calls Configure again with the same settings, and waits for their inventory.
func (c *check) reconfigures(ctx context.Context, s *session, w *stream) {
	answer, err := s.configure(ctx, c.Settings, c.HostPaths, c.timing.Configure, nil)
	if err == nil && len(answer.GetErrors()) > 0 {
		err = fmt.Errorf("settings that were accepted before are refused: %s", fieldErrors(answer))
	}
	if err != nil {
		c.fail(configure, "the second time: %s", err)
		return
	}
	revision := s.sent // no other goroutine changes it
	if !w.await(ctx, c.timing.Inventory, func() bool { return w.last.GetSettingsRevision() == revision }) {
		last, _ := w.newest()
		c.fail(settingsRevision, "no inventory with settings_revision %d came within %s; the last one has %d", revision, c.timing.Inventory, last.GetSettingsRevision())
		return
	}
	c.pass(settingsRevision)
}

// refuses calls Configure with settings that cannot be decoded, and reports whether they were refused.
func (c *check) refuses(ctx context.Context, s *session) bool {
	answer, err := s.configure(ctx, json.RawMessage(unreadable), c.HostPaths, c.timing.Configure, nil)
	switch refusal := answer.GetErrors(); {
	case err != nil:
		c.fail(settingsRefused, "with the list %s as settings: %s; answer with field errors instead", unreadable, err)
	case len(refusal) == 0 && c.described.SettingsSchema != "":
		c.fail(settingsRefused, "the list %s was accepted as settings, which are an object", unreadable)
	case len(refusal) == 0:
		c.skip("the backend has no settings", settingsRefused, earlierSettings)
	case len(refusal) > maxFieldErrors:
		c.fail(settingsRefused, "the refusal has %d field errors; at most %d are allowed", len(refusal), maxFieldErrors)
	case slices.ContainsFunc(refusal, func(e *backendv1.FieldError) bool { return strings.TrimSpace(e.GetMessage()) == "" }):
		c.fail(settingsRefused, "a field error has no message")
	default:
		c.pass(settingsRefused)
	}
	return len(answer.GetErrors()) > 0
}

// stays checks that refused settings do not change the inventory.
func (c *check) stays(before, now *backendv1.Inventory) {
	switch was, is := before.GetSettingsRevision(), now.GetSettingsRevision(); {
	case was != is:
		c.fail(earlierSettings, "settings_revision is %d after refused settings, and was %d before", is, was)
	case !slices.Equal(ids(before), ids(now)):
		c.fail(earlierSettings, "other devices are listed after refused settings: %s, want %s", words(ids(now)), words(ids(before)))
	default:
		c.pass(earlierSettings)
	}
}

// ids returns the IDs of the devices, in their order.
func ids(i *backendv1.Inventory) []string {
	all := make([]string, 0, len(i.GetDevices()))
	for _, d := range i.GetDevices() {
		all = append(all, d.GetId())
	}
	return all
}

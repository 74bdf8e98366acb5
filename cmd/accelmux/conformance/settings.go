package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/accelmux/accelmux/core/schema"
	backendv1 "github.com/accelmux/accelmux/proto/accelmux/backend/v1"
)

// unknownField is a field that no backend has in its settings or parameters.
const unknownField = "accelmux_check_backend"

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

// refuses calls Configure with an unknown field, and reports whether the settings were refused.
func (c *check) refuses(ctx context.Context, s *session) bool {
	bad, err := withField(c.Settings)
	if err != nil {
		c.fail(settingsRefused, "%s", err)
		return false
	}
	must := false // the schema does not allow the field
	if text := c.described.SettingsSchema; text != "" {
		must = refuses(schema.Check(ctx, text, bad))
	}
	answer, err := s.configure(ctx, bad, c.HostPaths, c.timing.Configure, nil)
	switch refusal := answer.GetErrors(); {
	case err != nil:
		c.fail(settingsRefused, "with the unknown field %s: %s; answer with field errors instead", unknownField, err)
	case len(refusal) == 0 && must:
		c.fail(settingsRefused, "the field %s, which the schema refuses, was accepted", unknownField)
	case len(refusal) == 0:
		c.skip("the backend accepts unknown fields, and its schema does not refuse them", settingsRefused, earlierSettings)
	case len(refusal) > maxFieldErrors:
		c.fail(settingsRefused, "the refusal has %d field errors; at most %d are allowed", len(refusal), maxFieldErrors)
	case slices.ContainsFunc(refusal, func(e *backendv1.FieldError) bool { return strings.TrimSpace(e.GetMessage()) == "" }):
		c.fail(settingsRefused, "a field error has no message")
	default:
		c.pass(settingsRefused)
	}
	return len(answer.GetErrors()) > 0
}

// refuses reports whether a check by a schema refused the value.
func refuses(err error) bool {
	var refusal *schema.RefusedError
	return errors.As(err, &refusal)
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

// withField adds the unknown field to a JSON object.
func withField(object json.RawMessage) (json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(object, &fields); err != nil {
		return nil, fmt.Errorf("the settings are not a JSON object: %w", err)
	}
	fields[unknownField] = json.RawMessage("true")
	return json.Marshal(fields)
}

// ids returns the IDs of the devices, in their order.
func ids(i *backendv1.Inventory) []string {
	all := make([]string, 0, len(i.GetDevices()))
	for _, d := range i.GetDevices() {
		all = append(all, d.GetId())
	}
	return all
}
